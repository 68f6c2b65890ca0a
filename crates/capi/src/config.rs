//! Configurations that are parsed from a string.

use std::ffi::c_char;
use std::sync::Arc;

use cubeyard_memory::FlexConfig;
use cubeyard_memory::device::AddressMode;
use cubeyard_memory::flex::StreamEvents;

use crate::argument;
use crate::call::call;
use crate::status::{Failure, Status};
use crate::stream::{CEvents, Events};

/// Target of a `cubeyard_config *`.
pub(crate) struct Config {
    pub(crate) flex: FlexConfig,
    pub(crate) mode: AddressMode,
    pub(crate) events: Option<Arc<dyn StreamEvents>>,
}

impl Default for Config {
    fn default() -> Self {
        Self { flex: FlexConfig::default(), mode: AddressMode::Physical, events: None }
    }
}

impl Config {
    /// Returns the mode of a `CUBEYARD_MODE_…` constant.
    pub(crate) fn mode_of(&self, mode: u32) -> Result<AddressMode, Failure> {
        match mode {
            0 => Ok(self.mode),
            1 => Ok(AddressMode::Physical),
            2 => Ok(AddressMode::Virtual),
            _ => Err(argument::wrong("mode", "is not a CUBEYARD_MODE constant")),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_config_new(text: *const c_char, config: *mut *mut Config) -> Status {
    call(|| {
        argument::place(config, "config")?;
        let text = if text.is_null() {
            ""
        } else {
            // SAFETY: the header requires NULL or a string.
            unsafe { argument::text(text, "text") }?
        };
        let made = Box::new(Config { flex: text.parse()?, ..Config::default() });
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(config, "config", Box::into_raw(made)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_config_set(
    config: *mut Config,
    key: *const c_char,
    value: *const c_char,
) -> Status {
    call(|| {
        // SAFETY: the header requires a configuration that no other thread uses.
        let config = unsafe { argument::change(config, "config") }?;
        // SAFETY: the header requires strings.
        let (key, value) =
            unsafe { (argument::text(key, "key")?, argument::text(value, "value")?) };
        Ok(config.flex.set(key, value)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_config_mode(config: *const Config, mode: *mut u32) -> Status {
    call(|| {
        // SAFETY: the header requires a configuration that no other thread uses.
        let config = unsafe { argument::read(config, "config") }?;
        let number = match config.mode {
            AddressMode::Physical => 1,
            AddressMode::Virtual => 2,
        };
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(mode, "mode", number) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_config_events(config: *mut Config, events: *const CEvents) -> Status {
    call(|| {
        // SAFETY: the header requires a configuration that no other thread uses.
        let config = unsafe { argument::change(config, "config") }?;
        // SAFETY: the header requires a struct whose first field states its length.
        let events = unsafe { Events::new(events) }?;
        config.events = Some(Arc::new(events));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_config_free(config: *mut Config) {
    call(|| {
        if config.is_null() {
            return Ok(());
        }
        argument::place(config, "config")?;
        // SAFETY: the header requires a configuration; it was created by `Box::into_raw`.
        drop(unsafe { Box::from_raw(config) });
        Ok(())
    });
}
