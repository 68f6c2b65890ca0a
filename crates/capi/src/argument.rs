//! Arguments from callers: pointers that may be invalid, and strings that may not be UTF-8.

use std::ffi::{CStr, c_char};

use cubeyard_memory::flex::TagId;

use crate::status::{Failure, Status};

/// Returns the failure for an invalid argument.
pub(crate) fn wrong(name: &str, why: &str) -> Failure {
    Failure::new(Status::Argument, format!("`{name}` {why}"))
}

/// Returns the failure for a tag that the allocator has not given out.
pub(crate) fn no_tag(tag: u32) -> Failure {
    Failure::new(Status::UnknownKey, format!("the allocator has no tag {tag}"))
}

/// Returns a tag of a number from C. Whether the allocator has it, the allocator says.
pub(crate) fn tag(tag: u32) -> Result<TagId, Failure> {
    u16::try_from(tag).map(TagId::new).map_err(|_| no_tag(tag))
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
/// If the pointer is neither null nor unaligned, it points to a `T` that stays valid and unchanged as long as the
/// reference is used.
pub(crate) unsafe fn read<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    check(pointer, name)?;
    // SAFETY: the pointer is neither null nor unaligned; the caller guarantees the rest.
    Ok(unsafe { &*pointer })
}

/// Returns the target of a pointer, mutably.
///
/// # Safety
/// The same as for [`read`], and no other code uses the target in the meantime.
pub(crate) unsafe fn change<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    check(pointer, name)?;
    // SAFETY: the pointer is neither null nor unaligned; the caller guarantees the rest.
    Ok(unsafe { &mut *pointer })
}

/// Writes a value through a pointer.
///
/// # Safety
/// If the pointer is neither null nor unaligned, it points to memory for a `T` that no other code uses.
pub(crate) unsafe fn write<T>(pointer: *mut T, name: &str, value: T) -> Result<(), Failure> {
    check(pointer, name)?;
    // SAFETY: the pointer is neither null nor unaligned; the caller guarantees the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes a value through a pointer, unless it is null.
///
/// # Safety
/// The same as for [`write`].
pub(crate) unsafe fn write_if<T>(pointer: *mut T, name: &str, value: T) -> Result<(), Failure> {
    // SAFETY: the caller guarantees the same.
    if pointer.is_null() { Ok(()) } else { unsafe { write(pointer, name, value) } }
}

/// Checks an output pointer before the call is made.
pub(crate) fn place<T>(pointer: *mut T, name: &str) -> Result<(), Failure> {
    check(pointer, name)
}

/// Checks an output pointer that may be null.
pub(crate) fn place_if<T>(pointer: *mut T, name: &str) -> Result<(), Failure> {
    if pointer.is_null() { Ok(()) } else { check(pointer, name) }
}

/// Writes a list to the caller's memory for `capacity` elements, and its length to `count`. If the elements do not fit,
/// only the length is written.
///
/// # Safety
/// Pointers that are neither null nor unaligned point to memory for `capacity` elements, and for the count, that no
/// other code uses.
pub(crate) unsafe fn write_list<T>(
    (list, capacity): (*mut T, usize),
    count: *mut usize,
    values: &[T],
    name: &str,
) -> Result<(), Failure> {
    if capacity > 0 {
        check(list, name)?;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { write_if(count, "count", values.len()) }?;
    if values.len() > capacity {
        let message =
            format!("{} are needed in `{name}`, but its capacity is {capacity}", values.len());
        return Err(Failure::new(Status::Buffer, message));
    }
    if !values.is_empty() {
        // SAFETY: there is room for all elements, as guaranteed by the caller.
        unsafe { list.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    }
    Ok(())
}

/// Returns a list passed by the caller.
///
/// # Safety
/// If the pointer is neither null nor unaligned, it points to `count` elements that stay valid and unchanged as long as
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
    // SAFETY: the pointer is neither null nor unaligned, and the list is not too long; the caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Returns a string passed by the caller.
///
/// # Safety
/// If the pointer is not null, it points to a NUL-terminated string that stays valid and unchanged as long as the
/// reference is used.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    check(pointer, name)?;
    // SAFETY: the pointer is not null; the caller guarantees the rest.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| wrong(name, "is not UTF-8"))
}

/// Checks that a struct is at least as long as in the first version of the header.
pub(crate) fn struct_size(found: usize, wanted: usize, name: &str) -> Result<(), Failure> {
    if found >= wanted {
        return Ok(());
    }
    Err(wrong(name, &format!("has a struct_size of {found}, but needs at least {wanted}")))
}

/// Returns a function that must not be null.
pub(crate) fn function<F>(function: Option<F>, name: &str) -> Result<F, Failure> {
    function.ok_or_else(|| wrong(name, "is NULL"))
}
