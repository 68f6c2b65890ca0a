//! What the tiles of a program hold, until nobody uses them any more.

use std::rc::Rc;

use crate::numeric::Array;
use crate::tl::{Effect, Order, Tape, ValueId};

/// What tiles hold.
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

    /// The value of a load that has no elements, or that a mask leaves nothing of: no access will bring it.
    pub(super) fn fill(&mut self, order: &Order) {
        let Effect::Load { value, ty, mask } = &order.effect else { return };
        let (count, other) = match mask {
            Some((mask, other)) => (mask.count(), *other),
            None => (ty.elements(), 0.0),
        };
        if count == 0 {
            let array = Array::full(ty.clone(), other).expect("checked when it was ordered");
            self.set(*value, array);
        }
    }

    pub(super) fn get(&self, value: ValueId) -> Rc<Array> {
        let array = self.arrays.get(value as usize).and_then(Option::as_ref);
        Rc::clone(array.expect("a value is made before it is used"))
    }

    /// A value was used; it is forgotten if nobody uses it any more.
    pub(super) fn used(&mut self, value: ValueId, tape: &Tape) {
        let place = value as usize;
        self.used[place] += 1;
        if tape.is_last_use(value, self.used[place]) {
            self.arrays[place] = None;
        }
    }
}
