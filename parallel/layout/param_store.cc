#include "parallel/layout/param_store.h"

#include <algorithm>

#include "parallel/layout/staging.h"
#include "runtime/base/error.h"

namespace trireme {

ParamStore::ParamStore(const Context& ctx, const BlockList& blocks, const ModelLayout& layout,
                       const Optimizer& optimizer, DataAxis axis, const ParamStoreOptions& options)
    : ctx_(ctx),
      layout_(layout),
      axis_(std::move(axis)),
      options_(options),
      sharding_(options.sharded.optimizer ? axis_.sharding() : Sharding{}),
      state_names_(optimizer.state_names()),
      matrix_state_names_(optimizer.matrix_state_names()),
      groups_(layout.groups.size()) {
  const DeviceTraits& device = traits(ctx_.allocator->device().type);
  if (options.offload != Offload::kNone && !device.host_memory) {
    throw Error(ErrorCode::kUnsupported,
                "offload = \"optimizer\" works where the device is the host, not on cuda yet: use a larger "
                "zero stage or recompute to save device memory");
  }
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
    if (!holds(g)) continue;
    allocate(g);
    if (!owns(g) || !device.computes) continue;
    layout.groups[static_cast<std::size_t>(g)].quantized ? initialize_quantized(blocks, g, options.seed)
                                                         : initialize(blocks, g, options.seed);
  }
  restart_averages();
  refresh_working();
}

const std::vector<std::string>& ParamStore::state_names(int group) const {
  static const std::vector<std::string> none;
  const ParamGroup& layout = layout_.groups[static_cast<std::size_t>(group)];
  if (layout.frozen) return none;
  return layout.matrices ? matrix_state_names_ : state_names_;
}

void ParamStore::allocate(int index) {
  Group& group = groups_[static_cast<std::size_t>(index)];
  const ParamGroup& layout = layout_.groups[static_cast<std::size_t>(index)];
  const MemoryHolderScope holder(*ctx_.allocator, layout.name);
  if (layout.quantized) {
    group.quantized.emplace(ctx_, layout);
    return;
  }
  const std::int64_t piece = sharding_.piece(layout.num_elems);
  const std::int64_t whole = sharding_.padded(layout.num_elems);
  const bool offloads = options_.offload == Offload::kOptimizer;
  const std::int64_t working = options_.sharded.parameters ? piece : whole;
  group.working = ctx_.empty({working}, options_.working_dtype, MemoryCategory::kParameters);
  if (!owns(index)) return;
  if (options_.working_dtype == DType::kFloat32) {
    group.master = working == piece ? group.working : group.working.slice(piece * sharding_.rank, {piece});
  } else {
    group.master =
        ctx_.empty({piece}, DType::kFloat32, offloads ? MemoryCategory::kHost : MemoryCategory::kParameters);
  }
  const MemoryCategory category = offloads ? MemoryCategory::kHost : MemoryCategory::kOptimizer;
  for (std::size_t s = 0; s < state_names(index).size(); ++s) {
    group.states.push_back(ctx_.zeros({piece}, DType::kFloat32, category));
  }
  if (has_averages() && !layout.frozen) group.average = ctx_.empty({piece}, DType::kFloat32, category);
}

namespace {

// Elements [first, first + values.size()) of a slot.
void initialize_elements(const ParameterSpec& spec, const ParamSlot& slot, std::uint64_t seed,
                         std::int64_t first, std::span<float> values, int num_threads) {
  constexpr std::int64_t kPiece = 1 << 14;  // elements are independent: any cut gives the same values
  const std::int64_t count = std::ssize(values);
#pragma omp parallel for schedule(dynamic) num_threads(num_threads)
  for (std::int64_t at = 0; at < count; at += kPiece) {
    initialize_parameter(
        spec, slot.name, seed, first + at,
        values.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(std::min(kPiece, count - at))));
  }
}

}  // namespace

void ParamStore::initialize_quantized(const BlockList& blocks, int group, std::uint64_t seed) {
  const std::vector<ParamSlot>& slots = layout_.groups[static_cast<std::size_t>(group)].slots;
  for (int s = 0; s < static_cast<int>(slots.size()); ++s) {
    const ParamSlot& slot = slots[static_cast<std::size_t>(s)];
    const ParameterSpec& spec =
        blocks[static_cast<std::size_t>(slot.block)]->parameters()[static_cast<std::size_t>(slot.index)];
    std::vector<float> numbers(static_cast<std::size_t>(slot.shape.num_elems()));
    initialize_elements(spec, slot, seed, 0, numbers, ctx_.exec.num_threads);
    quantized(group)->write(ctx_, s, numbers, QuantizedGroup::Scales::kFromNumbers);
  }
}

void ParamStore::initialize(const BlockList& blocks, int group, std::uint64_t seed) {
  const ParamGroup& layout = layout_.groups[static_cast<std::size_t>(group)];
  const Tensor& owned = master(group);
  const std::int64_t first = first_owned(group);
  std::vector<float> host(static_cast<std::size_t>(owned.num_elems()), 0.0f);
  for (const ParamSlot& slot : layout.slots) {
    const ParameterSpec& spec =
        blocks[static_cast<std::size_t>(slot.block)]->parameters()[static_cast<std::size_t>(slot.index)];
    // The part of the slot that this rank owns, in elements of the group.
    const std::int64_t begin = std::max(slot.offset, first);
    const std::int64_t end = std::min(slot.offset + slot.shape.num_elems(), first + owned.num_elems());
    if (end <= begin) continue;
    const auto values = std::span(host).subspan(static_cast<std::size_t>(begin - first),
                                                static_cast<std::size_t>(end - begin));
    initialize_elements(spec, slot, seed, begin - slot.offset, values, ctx_.exec.num_threads);
  }
  ctx_.backend->copy_from_host(ctx_.exec, owned, host.data());
}

std::int64_t ParamStore::first_owned(int group) const {
  return sharding_.first(layout_.groups[static_cast<std::size_t>(group)].num_elems);
}

const Tensor& ParamStore::average(int group) const {
  const Group& g = groups_[static_cast<std::size_t>(group)];
  return g.average.defined() ? g.average : g.master;
}

void ParamStore::restart_averages() {
  for (const Group& group : groups_) {
    if (group.average.defined()) ctx_.backend->copy(ctx_.exec, group.average, group.master);
  }
}

void ParamStore::swap_averages(int index) {
  Group& group = groups_[static_cast<std::size_t>(index)];
  if (!group.average.defined()) return;
  group.gather.wait();
  for (Work& send : group.sends) send.wait();  // of the previous values
  group.sends.clear();
  const std::int64_t count = group.master.num_elems();
  const std::int64_t copied =
      staging_elems(*ctx_.allocator, options_.memory_limit, std::min(count, kSwapElems));
  const Tensor held = ctx_.empty({copied}, DType::kFloat32, MemoryCategory::kOptimizer);
  for (std::int64_t first = 0; first < count; first += copied) {
    const Shape length{std::min(copied, count - first)};
    const Tensor piece = held.slice(0, length), average = group.average.slice(first, length),
                 master = group.master.slice(first, length);
    ctx_.backend->copy(ctx_.exec, piece, average);
    ctx_.backend->copy(ctx_.exec, average, master);
    ctx_.backend->copy(ctx_.exec, master, piece);
  }
  cast_working(index);
}

Tensor ParamStore::owned_working(int group) const {
  const Group& g = groups_[static_cast<std::size_t>(group)];
  const std::int64_t piece = sharding_.piece(layout_.groups[static_cast<std::size_t>(group)].num_elems);
  return g.working.num_elems() == piece ? g.working : g.working.slice(first_owned(group), {piece});
}

Tensor ParamStore::value(const ParamUse& use) {
  Group& group = groups_[static_cast<std::size_t>(use.group)];
  const ParamGroup& layout = layout_.groups[static_cast<std::size_t>(use.group)];
  const ParamSlot& slot = layout.slots[static_cast<std::size_t>(use.slot)];
  if (group.quantized) return group.quantized->value(ctx_, use.slot, options_.working_dtype);
  group.gather.wait();
  TRIREME_CHECK(resident(group).defined(), "parameter '{}' is used while its group '{}' is released",
                slot.name, layout.name);
  TRIREME_CHECK(!group.owes_in_host,
                "parameter '{}' is used before its group '{}' is gathered inside of the host", slot.name,
                layout.name);
  return resident(group).slice(slot.offset, slot.shape);
}

float ParamStore::center(const ParamUse& use) const {
  if (options_.working_dtype == DType::kFloat32) return 0.0f;
  return layout_.groups[static_cast<std::size_t>(use.group)].slots[static_cast<std::size_t>(use.slot)].center;
}

template <class Visit>
void ParamStore::for_each_owned_run(int group, const Visit& visit) const {
  const std::int64_t own_first = first_owned(group);
  const std::int64_t own_last = own_first + master(group).num_elems();
  for (const ParamRun& run : layout_.groups[static_cast<std::size_t>(group)].runs) {
    const std::int64_t first = std::max(run.first, own_first) - own_first;
    const std::int64_t last = std::min(run.last, own_last) - own_first;
    if (last > first) visit(first, Shape{last - first}, run);
  }
}

void ParamStore::gather(int group) {
  Group& g = groups_[static_cast<std::size_t>(group)];
  if (g.users++ > 0 || g.quantized) return;
  g.gather.wait();
  if (axis_.size() == 1) {
    g.gathered = g.working;
    return;
  }
  g.gathered = ctx_.empty({g.working.num_elems() * axis_.size()}, options_.working_dtype,
                          MemoryCategory::kCommunication);
  start_gather(g, g.working, g.gathered);
}

void ParamStore::start_gather(Group& group, const Tensor& own, const Tensor& whole) {
  group.gather = axis_.gather(own, whole);
  group.owes_in_host = axis_.is_hierarchical();
}

// The first of the blocks that share a group gathers it; the others return early.
void ParamStore::gather_in_host(int group) {
  Group& g = groups_[static_cast<std::size_t>(group)];
  if (!g.owes_in_host) return;
  g.gather.wait();
  g.gather = axis_.gather_in_host(resident(g));
  g.owes_in_host = false;
}

void ParamStore::release(int group) {
  Group& g = groups_[static_cast<std::size_t>(group)];
  TRIREME_CHECK(g.users > 0, "group '{}' is released more often than gathered",
                layout_.groups[static_cast<std::size_t>(group)].name);
  if (--g.users > 0) return;
  g.gather.wait();
  g.gathered = Tensor();
  g.owes_in_host = false;
}

void ParamStore::gather_updated(int group) {
  Group& g = groups_[static_cast<std::size_t>(group)];
  g.gather.wait();
  start_gather(g, owned_working(group), g.working);
}

Tensor ParamStore::whole(int group, const Tensor& owned) const {
  if (sharding_.ranks == 1) return owned;
  const Tensor all =
      ctx_.empty({owned.num_elems() * sharding_.ranks}, owned.dtype(), MemoryCategory::kCommunication);
  axis_.gather_and_wait(owned, all);
  return all.slice(0, {layout_.groups[static_cast<std::size_t>(group)].num_elems});
}

void ParamStore::update(int index, const Optimizer& optimizer, const UpdateScalars& scalars,
                        const Tensor& gradient) {
  Group& group = groups_[static_cast<std::size_t>(index)];
  for (Work& send : group.sends) send.wait();  // of the previous values
  group.sends.clear();
  for_each_owned_run(index, [&](std::int64_t first, const Shape& length, const ParamRun& run) {
    UpdateSegment segment{.param = group.master.slice(first, length),
                          .grad = gradient.slice(first, length),
                          .decay = run.decay};
    UpdateScalars of_run = scalars;
    of_run.lr = scalars.lr.slice(run.lr, Shape{});
    if (options_.working_dtype != DType::kFloat32) {
      segment.working = owned_working(index).slice(first, length);
      segment.working_center = run.center;
    }
    for (const Tensor& state : group.states) segment.state.push_back(state.slice(first, length));
    segment.matrix = run.matrix;
    optimizer.update(ctx_, segment, of_run);
  });
  if (group.average.defined()) {
    ctx_.run(MoveAverageArgs{.value = group.average,
                             .sample = group.master,
                             .momentum = 1.0f - options_.ema,
                             .skip = scalars.skip,
                             .step = options_.ema_tau > 0 ? ConstTensorView(scalars.step) : ConstTensorView(),
                             .tau = options_.ema_tau});
  }
}

void ParamStore::settle() {
  for (Group& group : groups_) {
    group.gather.wait();
    for (Work& send : group.sends) send.wait();
    group.sends.clear();
  }
}

void ParamStore::cast_working(int index) {
  if (options_.working_dtype == DType::kFloat32) return;
  const Tensor& master = groups_[static_cast<std::size_t>(index)].master;
  const Tensor working = owned_working(index);
  ctx_.run(CastArgs{.x = master, .y = working});  // padding too
  for_each_owned_run(index, [&](std::int64_t first, const Shape& length, const ParamRun& run) {
    if (run.center == 0.0f) return;
    ctx_.run(
        CastArgs{.x = master.slice(first, length), .y = working.slice(first, length), .center = run.center});
  });
}

void ParamStore::refresh_working() {
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
    if (!owns(g) || quantized(g) != nullptr) continue;
    groups_[static_cast<std::size_t>(g)].gather.wait();
    cast_working(g);
    if (gathers_updates()) {
      gather_updated(g);
      gather_in_host(g);
    }
  }
}

void ParamStore::send_working(int group, Communicator& comm, int stage) {
  Group& g = groups_[static_cast<std::size_t>(group)];
  g.sends.push_back(comm.send(owned_working(group), stage, kTiedTag));
}

void ParamStore::receive_working(int group, Communicator& comm, int stage) {
  Group& g = groups_[static_cast<std::size_t>(group)];
  g.gather.wait();
  comm.recv(owned_working(group), stage, kTiedTag).wait();
}

}  // namespace trireme
