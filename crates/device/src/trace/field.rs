//! Numbers of Perfetto's fields and enumerations, by message.

pub(super) mod trace {
    pub(in super::super) const PACKET: u32 = 1;
}

pub(super) mod packet {
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE_ID: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const INTERNED_DATA: u32 = 12;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const TRACK_DESCRIPTOR: u32 = 60;
}

pub(super) mod track {
    pub(in super::super) const UUID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const PARENT_UUID: u32 = 5;
    pub(in super::super) const COUNTER: u32 = 8;
    pub(in super::super) const CHILD_ORDERING: u32 = 11;
    pub(in super::super) const SIBLING_ORDER_RANK: u32 = 12;
    pub(in super::super) const SIBLING_MERGE_BEHAVIOR: u32 = 15;
}

pub(super) mod counter {
    pub(in super::super) const UNIT: u32 = 3;
    pub(in super::super) const UNIT_NAME: u32 = 6;
}

pub(super) mod event {
    pub(in super::super) const DEBUG_ANNOTATIONS: u32 = 4;
    pub(in super::super) const TYPE: u32 = 9;
    pub(in super::super) const NAME_IID: u32 = 10;
    pub(in super::super) const TRACK_UUID: u32 = 11;
    pub(in super::super) const COUNTER_VALUE: u32 = 30;
    pub(in super::super) const DOUBLE_COUNTER_VALUE: u32 = 44;
    pub(in super::super) const FLOW_IDS: u32 = 47;
    pub(in super::super) const TERMINATING_FLOW_IDS: u32 = 48;
}

pub(super) mod annotation {
    pub(in super::super) const NAME_IID: u32 = 1;
    pub(in super::super) const BOOL_VALUE: u32 = 2;
    pub(in super::super) const UINT_VALUE: u32 = 3;
    pub(in super::super) const INT_VALUE: u32 = 4;
    pub(in super::super) const DOUBLE_VALUE: u32 = 5;
    pub(in super::super) const STRING_VALUE: u32 = 6;
}

pub(super) mod interned {
    pub(in super::super) const EVENT_NAMES: u32 = 2;
    pub(in super::super) const ANNOTATION_NAMES: u32 = 3;
    /// Fields of an interned name of either kind.
    pub(in super::super) const IID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
}

/// Id of the only packet sequence; zero is not allowed.
pub(super) const SEQUENCE: u64 = 1;
pub(super) const INCREMENTAL_STATE_CLEARED: u64 = 1;
pub(super) const NEEDS_INCREMENTAL_STATE: u64 = 2;

pub(super) const TYPE_SLICE_BEGIN: u64 = 1;
pub(super) const TYPE_SLICE_END: u64 = 2;
pub(super) const TYPE_INSTANT: u64 = 3;
pub(super) const TYPE_COUNTER: u64 = 4;

pub(super) const ORDERING_EXPLICIT: u64 = 3;
/// Keeps tracks of the same name apart, which Perfetto would merge by default.
pub(super) const MERGE_NONE: u64 = 2;

pub(super) const UNIT_COUNT: u64 = 2;
pub(super) const UNIT_SIZE_BYTES: u64 = 3;
