//! Field and enumeration numbers of Perfetto, by message.

pub(super) const TRACE_PACKET: u32 = 1;

pub(super) const PACKET_TIMESTAMP: u32 = 8;
pub(super) const PACKET_SEQUENCE_ID: u32 = 10;
pub(super) const PACKET_TRACK_EVENT: u32 = 11;
pub(super) const PACKET_INTERNED_DATA: u32 = 12;
pub(super) const PACKET_SEQUENCE_FLAGS: u32 = 13;
pub(super) const PACKET_TRACK_DESCRIPTOR: u32 = 60;

pub(super) const TRACK_UUID: u32 = 1;
pub(super) const TRACK_NAME: u32 = 2;
pub(super) const TRACK_PARENT_UUID: u32 = 5;
pub(super) const TRACK_COUNTER: u32 = 8;
pub(super) const TRACK_CHILD_ORDERING: u32 = 11;
pub(super) const TRACK_SIBLING_ORDER_RANK: u32 = 12;
pub(super) const TRACK_SIBLING_MERGE_BEHAVIOR: u32 = 15;

pub(super) const COUNTER_UNIT: u32 = 3;
pub(super) const COUNTER_UNIT_NAME: u32 = 6;

pub(super) const EVENT_DEBUG_ANNOTATIONS: u32 = 4;
pub(super) const EVENT_TYPE: u32 = 9;
pub(super) const EVENT_NAME_IID: u32 = 10;
pub(super) const EVENT_TRACK_UUID: u32 = 11;
pub(super) const EVENT_COUNTER_VALUE: u32 = 30;
pub(super) const EVENT_DOUBLE_COUNTER_VALUE: u32 = 44;
pub(super) const EVENT_FLOW_IDS: u32 = 47;
pub(super) const EVENT_TERMINATING_FLOW_IDS: u32 = 48;

pub(super) const ANNOTATION_NAME_IID: u32 = 1;
pub(super) const ANNOTATION_BOOL_VALUE: u32 = 2;
pub(super) const ANNOTATION_UINT_VALUE: u32 = 3;
pub(super) const ANNOTATION_INT_VALUE: u32 = 4;
pub(super) const ANNOTATION_DOUBLE_VALUE: u32 = 5;
pub(super) const ANNOTATION_STRING_VALUE: u32 = 6;

pub(super) const INTERNED_EVENT_NAMES: u32 = 2;
pub(super) const INTERNED_ANNOTATION_NAMES: u32 = 3;
/// Fields of an interned event or argument name.
pub(super) const INTERNED_IID: u32 = 1;
pub(super) const INTERNED_NAME: u32 = 2;

/// Id of the only packet sequence; zero is not allowed.
pub(super) const SEQUENCE: u64 = 1;
pub(super) const INCREMENTAL_STATE_CLEARED: u64 = 1;
pub(super) const NEEDS_INCREMENTAL_STATE: u64 = 2;

pub(super) const TYPE_SLICE_BEGIN: u64 = 1;
pub(super) const TYPE_SLICE_END: u64 = 2;
pub(super) const TYPE_INSTANT: u64 = 3;
pub(super) const TYPE_COUNTER: u64 = 4;

pub(super) const ORDERING_EXPLICIT: u64 = 3;
/// Merge behaviour that keeps tracks of the same name separate; by default, Perfetto would merge them.
pub(super) const MERGE_NONE: u64 = 2;

pub(super) const UNIT_COUNT: u64 = 2;
pub(super) const UNIT_SIZE_BYTES: u64 = 3;
