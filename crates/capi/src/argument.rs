//! Arguments of callers: pointers that may be invalid, strings that may be no UTF-8.

use std::ffi::{CStr, c_char};

use crate::status::{Failure, Status};

/// Returns the failure for an invalid argument.
pub(crate) fn wrong(name: &str, why: &str) -> Failure {
    Failure::new(Status::Argument, format!("`{name}` {why}"))
}

fn check<T>(pointer: *const T, name: &str) -> Result<(), Failure> {
    match () {
        () if pointer.is_null() => Err(wrong(name, "is NULL")),
        () if !pointer.is_aligned() => Err(wrong(name, "is not aligned")),
        () => Ok(()),
    }
}

/// Returns the target of a pointer.
///
/// # Safety
/// If it is not null and is aligned, it points to a `T` that stays, unchanged, for as long as the
/// reference is used.
pub(crate) unsafe fn read<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    check(pointer, name)?;
    // SAFETY: it is neither null nor unaligned; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// Returns the target of a pointer, to be changed.
///
/// # Safety
/// As with [`read`], and no other code uses it meanwhile.
pub(crate) unsafe fn change<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    check(pointer, name)?;
    // SAFETY: it is neither null nor unaligned; the rest is the caller's promise.
    Ok(unsafe { &mut *pointer })
}

/// Writes a value through a pointer.
///
/// # Safety
/// If it is not null and is aligned, it points to memory for a `T` that no other code uses.
pub(crate) unsafe fn write<T>(pointer: *mut T, name: &str, value: T) -> Result<(), Failure> {
    check(pointer, name)?;
    // SAFETY: it is neither null nor unaligned; the rest is the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes a value through a pointer, unless it is null.
///
/// # Safety
/// As with [`write`].
pub(crate) unsafe fn write_if<T>(pointer: *mut T, name: &str, value: T) -> Result<(), Failure> {
    // SAFETY: the caller's promise is the same.
    if pointer.is_null() { Ok(()) } else { unsafe { write(pointer, name, value) } }
}

/// Checks a pointer for an answer before the call is made.
pub(crate) fn place<T>(pointer: *mut T, name: &str) -> Result<(), Failure> {
    check(pointer, name)
}

/// Checks a pointer for an answer that may be null.
pub(crate) fn place_if<T>(pointer: *mut T, name: &str) -> Result<(), Failure> {
    if pointer.is_null() { Ok(()) } else { check(pointer, name) }
}

/// Writes a list to the caller's memory for `capacity` elements, and its length to `count`. Where the
/// elements do not fit, only the length is written.
///
/// # Safety
/// Pointers that are not null and are aligned point to memory for so many elements, and for the number,
/// that no other code uses.
pub(crate) unsafe fn write_list<T>(
    (list, capacity): (*mut T, usize),
    count: *mut usize,
    values: &[T],
    name: &str,
) -> Result<(), Failure> {
    if capacity > 0 {
        check(list, name)?;
    }
    // SAFETY: the caller's promise.
    unsafe { write_if(count, "count", values.len()) }?;
    if values.len() > capacity {
        let message = format!("{} are needed in `{name}`, and it has {capacity}", values.len());
        return Err(Failure::new(Status::Buffer, message));
    }
    if !values.is_empty() {
        // SAFETY: there is room for all of them, by the caller's promise.
        unsafe { list.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    }
    Ok(())
}

/// Returns a list of the caller.
///
/// # Safety
/// If it is not null and is aligned, it points to `count` elements that stay, unchanged, for as long as
/// the reference is used.
pub(crate) unsafe fn list<'a, T>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, name)?;
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(wrong(name, &format!("cannot have {count} elements")));
    }
    // SAFETY: it is neither null nor unaligned nor too long; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Returns a text of the caller.
///
/// # Safety
/// If it is not null, it points to a string with a NUL at its end that stays, unchanged, for as long
/// as the reference is used.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    check(pointer, name)?;
    // SAFETY: it is not null; the rest is the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| wrong(name, "is not UTF-8"))
}

/// Checks that a struct is at least as long as it is in the first version of the header.
pub(crate) fn struct_size(found: usize, wanted: usize, name: &str) -> Result<(), Failure> {
    if found >= wanted {
        return Ok(());
    }
    Err(wrong(name, &format!("has a struct_size of {found}, and {wanted} are needed")))
}

/// Returns a function that must not be null.
pub(crate) fn function<F>(function: Option<F>, name: &str) -> Result<F, Failure> {
    function.ok_or_else(|| wrong(name, "is NULL"))
}
