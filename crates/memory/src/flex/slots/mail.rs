//! Mailboxes: blocks that one thread frees in the slot of another thread.
//!
//! A thread collects such blocks in its *outbox* and passes them on in batches to the *inboxes* of their slots. The
//! next thread that locks a slot frees the blocks in the slot's inbox.
//!
//! All mailboxes of an allocator are in one array, indexed by slot number, and a thread keeps a reference to it.
//! Passing a block on therefore touches no reference count. It touches no cache line that the other thread writes
//! except the inbox, and that once per batch.

use std::cell::RefCell;

use super::{Slot, SlotBlock, block, slot_key};
use crate::index::BlockKey;
use crate::sync::{Apart, Arc, AtomicBool, Mutex, Ordering, lock};

const OUTBOX: usize = 64;

pub(crate) type Mail = Arc<[Mailbox]>;

/// Blocks that a slot's thread frees in other slots (outbox), and blocks that arrive for the slot (inbox).
#[derive(Default)]
pub(crate) struct Mailbox {
    outbox: Apart<Mutex<Vec<SlotBlock>>>,
    inbox: Apart<Mutex<Vec<SlotBlock>>>,
    /// Whether the inbox holds a block. It is on a separate cache line, since every entry to the slot reads it.
    arrived: Apart<AtomicBool>,
}

impl Mailbox {
    /// Returns whether another thread has left blocks to be freed here.
    #[inline]
    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Acquire)
    }

    /// Takes the contents of the inbox and replaces them by an empty vector.
    pub(crate) fn take(&self, empty: Vec<SlotBlock>) -> Vec<SlotBlock> {
        let mut inbox = lock(&self.inbox);
        self.arrived.store(false, Ordering::Release);
        std::mem::replace(&mut *inbox, empty)
    }

    /// Calls `act` unless a block has arrived, and prevents it from arriving in the meantime. Returns whether `act` was
    /// called.
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
    /// The mailboxes that this thread used last. Keeping the reference avoids an update of a reference count, shared by
    /// all threads, for every block.
    static MAIL: RefCell<Option<Mail>> = const { RefCell::new(None) };
}

/// Collects a freed block of another thread's slot; `home` is the slot of this thread.
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
        // Fails while the thread exits, and under the model checker, whose threads share the variable.
        let _ = MAIL.try_with(|held| held.try_borrow_mut().map(|mut held| held.replace(mail)));
    }
    if !left.is_empty() {
        free_all(left);
    }
}

/// Delivers the blocks of all outboxes. Returns the slots that received blocks.
pub(crate) fn collect(mail: &[Mailbox]) -> Vec<Arc<Slot>> {
    let mut slots = Vec::new();
    for Mailbox { outbox, .. } in mail {
        // The lock is held until all blocks have arrived: the next thread must find them there.
        let mut posts = lock(outbox);
        slots.extend(posts.iter().map(|(slot, _)| Arc::clone(slot)));
        let left = deliver(mail, &mut posts);
        drop(posts);
        free_all(left);
    }
    slots
}

/// Puts a block into an outbox, and delivers the outbox if it is full. Returns the blocks to be freed at once.
#[inline]
fn post_in(mail: &[Mailbox], post: SlotBlock, home: usize) -> Vec<SlotBlock> {
    let mut outbox = lock(&mail[home].outbox);
    let closed = post.0.shared.is_closed();
    outbox.push(post);
    if closed {
        // The allocator was just dropped, so no thread would look into an inbox again.
        return std::mem::take(&mut *outbox);
    }
    if outbox.len() < OUTBOX { Vec::new() } else { deliver(mail, &mut outbox) }
}

/// Puts blocks into the inboxes of their slots. Returns the blocks that compaction has moved in the meantime. (An inbox
/// is locked under an outbox, and the table of moved blocks under an inbox.)
fn deliver(mail: &[Mailbox], posts: &mut Vec<SlotBlock>) -> Vec<SlotBlock> {
    let mut moved = Vec::new();
    // Usually all blocks belong to one slot, which receives them in one step.
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
