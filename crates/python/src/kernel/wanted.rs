//! Tile values requested by a live kernel.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use cubeyard_tl::numeric::Array;

/// Future of the contents of a tile.
pub(super) type Contents = Pin<Box<dyn Future<Output = Rc<Array>>>>;

/// Future of the contents, with the shape in which the tile is viewed.
pub(super) type Asked = (Contents, Vec<u64>);

/// Futures of the values that a kernel has requested, by number.
#[derive(Default)]
pub(crate) struct Wanted(RefCell<Vec<Option<Asked>>>);

impl Wanted {
    pub(super) fn clear(&self) {
        let all = self.0.take();
        drop(all);
    }

    pub(super) fn insert(&self, contents: Contents, shape: Vec<u64>) -> u32 {
        let mut all = self.0.borrow_mut();
        all.push(Some((contents, shape)));
        u32::try_from(all.len() - 1).expect("fewer than 2³² values")
    }

    /// Takes the future of a value; called when the value is awaited.
    pub(super) fn take(&self, key: u32) -> Option<Asked> {
        let mut all = self.0.borrow_mut();
        let taken = all.get_mut(key as usize)?.take();
        while all.last().is_some_and(Option::is_none) {
            all.pop();
        }
        taken
    }
}
