//! Values of the tiles of a program, kept until their last use.

use std::rc::Rc;

use crate::numeric::{Array, Constant};
use crate::{Effect, Order, Tape, ValueId};

/// Values of tiles, and the number of uses of each so far.
#[derive(Debug, Default)]
pub(super) struct Values {
    arrays: Vec<Option<Rc<Array>>>,
    used: Vec<u32>,
}

impl Values {
    pub(super) fn set(&mut self, value: ValueId, array: Array) {
        let place = value as usize;
        if self.arrays.len() <= place {
            self.arrays.resize(place + 1, None);
            self.used.resize(place + 1, 0);
        }
        self.arrays[place] = Some(Rc::new(array));
    }

    /// Sets the value of a load without elements, or with an empty mask: no access will deliver it.
    pub(super) fn fill(&mut self, order: &Order) {
        let Effect::Load { value, ty, mask } = &order.effect else { return };
        let (count, other) = match mask.as_deref() {
            Some((mask, other)) => (mask.count(), *other),
            None => (ty.elements(), Constant::zero(ty.dtype)),
        };
        if count == 0 {
            let array = Array::filled(&ty.shape, other).expect("checked when it was ordered");
            self.set(*value, array);
        }
    }

    pub(super) fn get(&self, value: ValueId) -> Rc<Array> {
        let array = self.arrays.get(value as usize).and_then(Option::as_ref);
        Rc::clone(array.expect("a value is made before it is used"))
    }

    /// Counts a use of a value, and drops it after the last.
    pub(super) fn used(&mut self, value: ValueId, tape: &Tape) {
        let place = value as usize;
        self.used[place] += 1;
        if tape.is_last_use(value, self.used[place]) {
            self.arrays[place] = None;
        }
    }
}
