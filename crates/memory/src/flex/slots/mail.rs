//! Mail: blocks that a thread frees in a slot that is another thread's own.
//!
//! The thread collects such blocks in its *outbox* and passes them on, a batch at a time, to the
//! *inboxes* of their slots. The next thread that locks a slot frees what its inbox holds.
//!
//! All boxes of an allocator are in one array, by the numbers of the slots, and a thread keeps a
//! reference to it. So passing a block on touches no reference count and no cache line that the other
//! thread writes, except those of its inbox, once for a batch.

use std::cell::RefCell;

use super::{Slot, SlotBlock, block, slot_key};
use crate::index::BlockKey;
use crate::sync::{Apart, Arc, AtomicBool, Mutex, Ordering, lock};

const OUTBOX: usize = 64;

pub(crate) type Mail = Arc<[Mailbox]>;

/// Blocks that a slot's thread frees in other slots, and blocks that arrive for the slot.
#[derive(Default)]
pub(crate) struct Mailbox {
    outbox: Apart<Mutex<Vec<SlotBlock>>>,
    inbox: Apart<Mutex<Vec<SlotBlock>>>,
    /// Whether the inbox holds anything. Apart from it, since every entry to the slot reads this.
    arrived: Apart<AtomicBool>,
}

impl Mailbox {
    /// Returns whether another thread has left blocks to be freed here.
    #[inline]
    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Acquire)
    }

    /// Takes what has arrived, in exchange for an empty box.
    pub(crate) fn take(&self, empty: Vec<SlotBlock>) -> Vec<SlotBlock> {
        let mut inbox = lock(&self.inbox);
        self.arrived.store(false, Ordering::Release);
        std::mem::replace(&mut *inbox, empty)
    }

    /// Calls `act` unless a block has arrived, and so that it cannot arrive meanwhile. Returns whether
    /// it was called.
    pub(crate) fn unless_arrived(&self, key: BlockKey, act: impl FnOnce()) -> bool {
        let inbox = lock(&self.inbox);
        let arrived = inbox.iter().any(|post| post.1 == key);
        if !arrived {
            act();
        }
        !arrived
    }
}

thread_local! {
    /// The boxes that this thread used last: holding them, it need not count itself in and out for
    /// every block, in a count that all threads would share.
    static MAIL: RefCell<Option<Mail>> = const { RefCell::new(None) };
}

/// Collects a block of another thread's slot, which this thread, whose own slot is `home`, frees.
pub(crate) fn post(block: SlotBlock, home: usize) {
    let mut post = Some(block);
    let held = MAIL.try_with(|held| {
        let held = held.try_borrow().ok()?;
        let mail = held.as_ref()?;
        let post = post.take_if(|(slot, _)| Arc::ptr_eq(mail, &slot.shared.mail))?;
        Some(post_in(mail, post, home))
    });
    let mut left = held.ok().flatten().unwrap_or_default();
    if let Some(post) = post {
        let mail = Arc::clone(&post.0.shared.mail);
        left = post_in(&mail, post, home);
        // Fails while the thread ends, and under the model checker, whose threads share it.
        let _ = MAIL.try_with(|held| held.try_borrow_mut().map(|mut held| held.replace(mail)));
    }
    if !left.is_empty() {
        free_all(left);
    }
}

/// Delivers the blocks of all outboxes. Returns the slots that they went to.
pub(crate) fn collect(mail: &[Mailbox]) -> Vec<Arc<Slot>> {
    let mut slots = Vec::new();
    for Mailbox { outbox, .. } in mail {
        // Under the lock until all of it has arrived: the next thread must find it there.
        let mut posts = lock(outbox);
        slots.extend(posts.iter().map(|(slot, _)| Arc::clone(slot)));
        let left = deliver(mail, &mut posts);
        drop(posts);
        free_all(left);
    }
    slots
}

/// Puts a block into an outbox, and delivers a full one. Returns the blocks to be freed at once.
#[inline]
fn post_in(mail: &[Mailbox], post: SlotBlock, home: usize) -> Vec<SlotBlock> {
    let mut outbox = lock(&mail[home].outbox);
    let closed = post.0.shared.is_closed();
    outbox.push(post);
    if closed {
        // The allocator has just gone, and nobody would look into an inbox again.
        return std::mem::take(&mut *outbox);
    }
    if outbox.len() < OUTBOX { Vec::new() } else { deliver(mail, &mut outbox) }
}

/// Puts blocks into the inboxes of their slots. Returns those that compaction has moved meanwhile. (An
/// inbox is locked under an outbox, and the table of moved blocks under an inbox.)
fn deliver(mail: &[Mailbox], posts: &mut Vec<SlotBlock>) -> Vec<SlotBlock> {
    let mut moved = Vec::new();
    // Mostly all of them belong to one slot, which takes them all.
    while let Some((slot, _)) = posts.last() {
        let number = slot.number;
        let Mailbox { inbox, arrived, .. } = &mail[number];
        let mut inbox = lock(inbox);
        if posts.iter().all(|(slot, _)| slot.number == number) && slot.shared.moves.is_empty() {
            inbox.append(posts);
        } else {
            for post in posts.extract_if(.., |(slot, _)| slot.number == number) {
                let has_moved = post.0.shared.moves.contains(slot_key(&post));
                let target = if has_moved { &mut moved } else { &mut *inbox };
                target.push(post);
            }
        }
        arrived.store(!inbox.is_empty(), Ordering::Release);
    }
    moved
}

fn free_all(posts: Vec<SlotBlock>) {
    posts.into_iter().for_each(|(slot, key)| block::free_now(slot, key));
}
