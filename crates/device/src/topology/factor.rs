//! Values of keys and groups as numbers, for calculations with machines.

use cubeyard_yaml::PlainValue;

use super::{KeyGroup, Topology, suggest};

impl Topology {
    /// Returns all dotted keys of the machine whose values are no mappings, in the order of its file.
    pub fn keys(&self) -> Vec<String> {
        suggest::keys("", self.values())
    }

    /// Returns the value of a dotted key; `None` if the machine does not have it.
    pub fn value(&self, key: &str) -> Option<&PlainValue> {
        key.split('.').try_fold(self.values(), |value, name| value.get(name))
    }

    /// Returns the factor of a group of keys relative to the default machine: 2 if its resource is twice as fast. The
    /// first key of the group that is a number above 0 on both machines decides. `None` if there is none.
    ///
    /// ```
    /// use cubeyard_device::topology::{KeyGroup, Topology};
    /// use cubeyard_yaml::PlainValue;
    ///
    /// let twice = ("hbm.bandwidth".to_owned(), PlainValue::Text("2x".to_owned()));
    /// let machine = Topology::embedded().with_overrides(&[twice])?;
    /// let group = KeyGroup::find("hbm.bandwidth").unwrap();
    /// assert_eq!(machine.factor(group), Some(2.0));
    /// # Ok::<(), cubeyard_device::topology::OverrideError>(())
    /// ```
    pub fn factor(&self, group: &KeyGroup) -> Option<f64> {
        let default = Self::embedded();
        let numbers = |key: &str| Some((first(self.value(key)?)?, first(default.value(key)?)?));
        let rates = group.rates.iter().filter_map(|key| numbers(key));
        let times = group.times.iter().filter_map(|key| numbers(key));
        rates
            .map(|(own, default)| own / default)
            .chain(times.map(|(own, default)| default / own))
            .find(|factor| factor.is_finite() && *factor > 0.0)
    }
}

/// Returns a value as a number; the first number of a mapping.
fn first(value: &PlainValue) -> Option<f64> {
    match value {
        PlainValue::Whole(number) => Some(*number as f64),
        PlainValue::Number(number) => Some(*number),
        PlainValue::Map(entries) => entries.iter().find_map(|(_, value)| first(value)),
        _ => None,
    }
}
