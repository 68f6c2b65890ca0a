//! The log of an allocator, in a separate process.
//!
//! `tracing` decides once per call site whether any subscriber is interested. As long as there is a single subscriber,
//! it asks the subscriber of the thread that reaches the call site first. Next to other tests, that was sometimes a
//! thread without a subscriber, and then the line was missing for all threads.

use std::sync::{Arc, Mutex};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::FlexAllocator;

/// A subscriber that stores the messages.
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "cubeyard::alloc"
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                use std::fmt::Write as _;
                if field.name() == "message" {
                    self.0 = format!("{value:?}{}", self.0);
                } else {
                    write!(self.0, " {}={value:?}", field.name()).unwrap();
                }
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn every_step_can_be_followed_in_the_log() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Log(Arc::clone(&lines)), || {
        let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(10)))));
        let first = allocator.allocate(Bytes::mib(1)).unwrap();
        let second = allocator.allocate(Bytes::mib(1)).unwrap();
        drop(first);
        drop(second);
        let refused = allocator.allocate(Bytes::gib(9)).unwrap_err();
        let before = lines.lock().unwrap().len();
        assert!(refused.to_string().contains("remedies tried on a copy"), "{refused}");
        assert_eq!(lines.lock().unwrap().len(), before, "trials are not steps of the allocator");
    });
    let lines = lines.lock().unwrap();
    let wanted = [
        "region refused level=0",
        "region acquired region=0x400000000 size=8589934592 level=1",
        "block assigned region=0x400000000 offset=0 size=1048576",
        "block freed region=0x400000000 offset=1048576 size=1048576 joined_below=1048576",
        "out of memory requested=9663676416",
    ];
    for line in wanted {
        assert!(lines.iter().any(|found| found.starts_with(line)), "{line} is not in {lines:#?}");
    }
}
