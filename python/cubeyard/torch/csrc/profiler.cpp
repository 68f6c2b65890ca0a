// Work of the devices for torch.profiler: kernels, copies and collectives in simulated time.
//
// Python reports the work while a session of Kineto runs (python/cubeyard/torch/_kineto.py), on the thread that submits
// it. Kineto tells each thread the numbers of PyTorch's operators as they begin and end, which link work to operators.
// PyTorch 2.11 has no such sessions: there, this file is empty.
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)

#define USE_KINETO
#define FMT_HEADER_ONLY
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <libkineto.h>
#include <output_base.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "shim.h"

#define CUBEYARD_EXPORT extern "C" __attribute__((visibility("default")))

namespace cubeyard {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

// Row of a device in a trace: a stream, or the collectives of a process group.
struct Row {
  int64_t device;
  int64_t number;

  auto operator<=>(const Row&) const = default;
};

// Work of a device, with times in picoseconds of simulated time.
struct Work {
  ActivityType type;
  std::string name;
  Row row;
  int64_t begin;
  int64_t end;
  std::vector<uint64_t> ops; // PyTorch's operator that submitted it, and those that it alone consists of
  std::vector<uint64_t> annotations; // numbers of the ranges of torch.profiler.record_function around it
  std::vector<std::pair<std::string, std::string>> details; // values are JSON
};

// ---- Threads ------------------------------------------------------------------------------------

std::atomic<uint64_t> session_number{0};

// Operator that has begun.
struct BegunOp {
  uint64_t number;
  size_t parts = 0; // operators that it has called
  std::vector<uint64_t> part; // the first of them, and those that it alone consists of
};

// Operators and annotated ranges that have begun on a thread. An earlier session may have left some without an end.
struct Begun {
  uint64_t session = 0;
  std::vector<BegunOp> ops;
  std::vector<uint64_t> annotations;
};

Begun& begun() {
  thread_local Begun begun;
  if (const uint64_t now = session_number.load(std::memory_order_acquire); begun.session != now) {
    begun = Begun{now, {}, {}};
  }
  return begun;
}

// The operator and the parts that it alone consists of so far.
std::vector<uint64_t> chain_of(const BegunOp& op) {
  std::vector<uint64_t> chain{op.number};
  if (op.parts == 1) {
    chain.insert(chain.end(), op.part.begin(), op.part.end());
  }
  return chain;
}

void end_op(std::vector<BegunOp>& ops) {
  if (ops.empty()) {
    return; // It began before the session.
  }
  auto chain = chain_of(ops.back());
  ops.pop_back();
  if (!ops.empty() && ops.back().parts++ == 0) {
    ops.back().part = std::move(chain);
  }
}

// ---- Recording ----------------------------------------------------------------------------------

// Called with 1 when a session starts and with 0 when it stops; returns the host's clock in picoseconds.
using Switch = int64_t (*)(int is_on);

std::atomic<Switch> python_switch{nullptr};

// Work of the running session.
struct Recording {
  std::mutex mutex;
  bool is_on = false;
  std::vector<Work> works;
  std::map<Row, std::string> rows;
};

Recording& recording() {
  static auto* const made = new Recording;
  return *made;
}

int64_t switch_python(bool is_on) {
  const Switch call = python_switch.load(std::memory_order_acquire);
  return call == nullptr ? 0 : call(is_on);
}

// ---- Kineto -------------------------------------------------------------------------------------

const std::set<ActivityType>& types_of_work() {
  static const std::set<ActivityType> types = {
      ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_USER_ANNOTATION};
  return types;
}

// Whole nanoseconds from the begin of a session, rounded down, so that work without a gap has none in the trace.
int64_t nanoseconds(int64_t picoseconds) {
  return picoseconds >= 0 ? picoseconds / 1000 : -((999 - picoseconds) / 1000);
}

libkineto::DeviceInfo device_info(int64_t device) {
  return {
      .id = device,
      .sortIndex = device + libkineto::kExceedMaxPid,
      .name = c10::DeviceTypeName(kDevice, true) + ":" + std::to_string(device),
      .label = "simulated time"};
}

// The operator of a chain that PyTorch gives the work of all of it: its tables drop an operator whose only part has the
// same name, with its work.
const libkineto::ITraceActivity* operator_of(
    const std::vector<uint64_t>& chain, const libkineto::getLinkedActivityCallback& linked) {
  const libkineto::ITraceActivity* found = nullptr;
  for (const uint64_t number : chain) {
    const auto* op = linked(static_cast<int32_t>(number));
    if (op == nullptr || (found != nullptr && op->name() != found->name())) {
      break;
    }
    found = op;
  }
  return found;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}

  void start() override {
    session_number.fetch_add(1, std::memory_order_acq_rel);
    begin_ = switch_python(true);
    Recording& all = recording();
    const std::lock_guard lock(all.mutex);
    all.works.clear();
    all.rows.clear();
    all.is_on = true;
  }

  void stop() override {
    switch_python(false);
    Recording& all = recording();
    const std::lock_guard lock(all.mutex);
    all.is_on = false;
    works_ = std::exchange(all.works, {});
    rows_ = std::exchange(all.rows, {});
  }

  void toggleCollectionDynamic(bool enable) override {
    const std::lock_guard lock(recording().mutex);
    recording().is_on = enable;
  }

  std::vector<std::string> errors() override {
    return {};
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  // Simulated time begins at the begin of the trace.
  void processTrace(
      libkineto::ActivityLogger& logger,
      libkineto::getLinkedActivityCallback linked,
      int64_t start,
      int64_t /*end*/) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, start, "simulated time");
    buffer_->gpuOpCount = static_cast<int>(works_.size());
    std::map<std::pair<Row, uint64_t>, std::pair<int64_t, int64_t>> ranges;
    for (const Work& work : works_) {
      const int64_t begin = start + nanoseconds(work.begin - begin_);
      const int64_t end = start + nanoseconds(work.end - begin_);
      add(logger, work.type, work.name, work.row, begin, end, operator_of(work.ops, linked), work.details);
      for (const uint64_t annotation : work.annotations) {
        auto& range = ranges.try_emplace({work.row, annotation}, begin, end).first->second;
        range = {std::min(range.first, begin), std::max(range.second, end)};
      }
    }
    for (const auto& [key, range] : ranges) {
      if (const auto* annotation = linked(static_cast<int32_t>(key.second))) {
        add(logger, ActivityType::GPU_USER_ANNOTATION, annotation->name(), key.first, range.first, range.second, nullptr, {});
      }
    }
    for (const auto& [row, name] : rows_) {
      if (row.device != 0) {
        logger.handleDeviceInfo(device_info(row.device), start);
      }
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::unique_ptr<libkineto::DeviceInfo>(new libkineto::DeviceInfo(device_info(0)));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> infos;
    for (const auto& [row, name] : rows_) {
      infos.push_back({.id = row.number, .sortIndex = row.number, .deviceId = row.device, .name = name});
    }
    return infos;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override {
    begun().ops.push_back({id});
  }
  void popCorrelationId() override {
    end_op(begun().ops);
  }
  void pushUserCorrelationId(uint64_t id) override {
    begun().annotations.push_back(id);
  }
  void popUserCorrelationId() override {
    if (auto& annotations = begun().annotations; !annotations.empty()) {
      annotations.pop_back();
    }
  }

 private:
  void add(
      libkineto::ActivityLogger& logger,
      ActivityType type,
      const std::string& name,
      Row row,
      int64_t begin,
      int64_t end,
      const libkineto::ITraceActivity* op,
      const std::vector<std::pair<std::string, std::string>>& details) {
    if (!types_.contains(type)) {
      return;
    }
    buffer_->emplace_activity(buffer_->span, type, name);
    GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = begin;
    activity.endTime = end;
    activity.device = static_cast<int32_t>(row.device);
    activity.resource = row.number;
    activity.linked = op;
    activity.id = op == nullptr ? 0 : static_cast<int32_t>(op->correlationId());
    for (const auto& [key, value] : details) {
      activity.addMetadata(key, value);
    }
    buffer_->span.endTime = std::max(buffer_->span.endTime, end);
    logger.handleActivity(activity);
  }

  const std::set<ActivityType> types_;
  int64_t begin_ = 0; // host's clock at the start, in picoseconds
  std::vector<Work> works_;
  std::map<Row, std::string> rows_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    return name_;
  }

  const std::set<ActivityType>& availableActivities() const override {
    return types_of_work();
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types,
      const libkineto::Config& /*config*/) override {
    const bool is_asked = std::any_of(
        types.begin(), types.end(), [](ActivityType type) { return types_of_work().contains(type); });
    return is_asked ? std::make_unique<Session>(types) : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t /*begin*/,
      int64_t /*duration*/,
      const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = c10::DeviceTypeName(kDevice, true);
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

} // namespace
} // namespace cubeyard

// Sets the function that is called when a session starts and stops; null for none.
CUBEYARD_EXPORT void cubeyard_torch_on_profile(int64_t (*function)(int is_on)) {
  cubeyard::python_switch.store(function, std::memory_order_release);
}

// Returns the number of PyTorch's operator that runs on this thread; 0 if there is none, or no session.
CUBEYARD_EXPORT uint64_t cubeyard_torch_profiled_operator() {
  const auto& ops = cubeyard::begun().ops;
  return ops.empty() ? 0 : ops.back().number;
}

// Adds work to the running session. `op` is 0 for the operator that runs on this thread. `details` has `count` pairs of a
// key and a JSON value.
CUBEYARD_EXPORT void cubeyard_torch_profile_work(
    int is_copy,
    const char* name,
    int64_t device,
    int64_t row,
    const char* row_name,
    int64_t begin,
    int64_t end,
    uint64_t op,
    const char* const* details,
    size_t count) {
  using namespace cubeyard;
  const Begun& thread = begun();
  std::vector<uint64_t> ops;
  if (op != 0) {
    ops = {op};
  } else if (!thread.ops.empty()) {
    ops = chain_of(thread.ops.back());
  }
  Work work{
      is_copy != 0 ? ActivityType::GPU_MEMCPY : ActivityType::CONCURRENT_KERNEL,
      name,
      {device, row},
      begin,
      end,
      std::move(ops),
      thread.annotations,
      {}};
  for (size_t pair = 0; pair < count; pair++) {
    work.details.emplace_back(details[2 * pair], details[2 * pair + 1]);
  }
  const std::lock_guard lock(recording().mutex);
  if (recording().is_on) {
    recording().rows.try_emplace(work.row, row_name);
    recording().works.push_back(std::move(work));
  }
}

#endif
