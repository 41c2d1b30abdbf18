// Parameters and optimizer state of one rank, group by group, in flat buffers.
//
// [Note: what is where] Per group of n elements on N data ranks, with pieces of p = n / N elements:
//
//     stage        working copy (compute dtype)           fp32 master and optimizer state
//     0            n                                      n
//     1, 2         n, gathered after each update          p
//     3            p; n between gather() and release()    p
//
// The plan chooses when gather() and release() run: around every use, or at a step's first and last use. In
// fp32 the working copy is the master or contains it, so there is no second copy. Gathered buffers of stage 3
// are counted as communication. Gathers stay in flight until the values are needed.
//
// [Note: averages] With ParamStoreOptions::ema every trained group has one more fp32 tensor, sharded like the
// master: average = ema * average + (1 - ema) * master after every update that is not skipped. It starts from
// the initial or loaded parameters. With ParamStoreOptions::ema_tau the decay at update t is ema (1 - exp(-t
// / tau)), as in YOLO, so that early averages follow the parameters. An evaluation of the averages exchanges
// masters and averages before its first forward and after its loss (SwapAverages of a plan), piece by piece.
// The actions that follow an update then bring the working copies up to date. So an evaluation needs only a
// staging buffer beside a step's memory, and no exchange of another kind. Rejected: a second set of working
// copies for the averages (doubles the parameters of ZeRO-0 to 2), and gathering averages instead of
// parameters (unsharded parameters are never gathered). Running statistics have no averages, because they are
// averages themselves.
//
// [Note: offload] With Offload::kOptimizer the optimizer state, and the master if it is a separate buffer,
// are in host memory (MemoryCategory::kHost), and the update runs on the host. On a CPU device this is the
// same memory and the same update, counted separately.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/layout/data_axis.h"
#include "parallel/layout/model_layout.h"
#include "parallel/layout/quantized_group.h"
#include "parallel/layout/stage_groups.h"
#include "runtime/context.h"
#include "runtime/optim/optimizer.h"

namespace trireme {

/// State that is kept in host memory, where its update runs too.
enum class Offload : std::uint8_t {
  kNone,
  kOptimizer,  // the optimizer state, and the fp32 master where it is not the working copy
};

struct ParamStoreOptions {
  ShardedState sharded;
  Offload offload = Offload::kNone;
  DType working_dtype = DType::kFloat32;
  std::uint64_t seed = 0;
  float ema = 0.0f;               // decay of the averages of parameters; 0: none. See [Note: averages]
  double ema_tau = 0.0;           // updates over which the decay grows; 0: constant
  std::vector<Holding> holdings;  // by group, for this rank's stage; empty: it owns all groups
  std::optional<std::int64_t> memory_limit;  // of the allocator, for [Note: staging]
};

class ParamStore {
 public:
  /// Maximum number of elements that swap_averages() copies at a time: [Note: staging].
  static constexpr std::int64_t kSwapElems = 1 << 18;

  /// Allocates all held groups; on a device that computes, initialises what this rank owns. Collective over
  /// the data axis from stage 1 on. Copies of groups of other stages must be received before their first use.
  /// Throws Error(kUnsupported) for offload from a device with separate memory.
  ParamStore(const Context& ctx, const BlockList& blocks, const ModelLayout& layout,
             const Optimizer& optimizer, DataAxis axis, const ParamStoreOptions& options);

  /// The working copy of a parameter, which stores value - center(use). Throws if its group is not resident.
  Tensor value(const ParamUse& use);
  float center(const ParamUse& use) const;

  /// Makes a sharded group's working copy resident, or adds one user if it is. Collective.
  void gather(int group);
  /// The second half of a gather or an update on a two-level axis: gathers from the other ranks of the host.
  /// Collective over the host.
  void gather_in_host(int group);
  /// Removes one user; the last one frees the gathered copy.
  void release(int group);

  /// owns(): this rank's stage owns the group. holds(): it has a working copy of it.
  bool owns(int group) const { return holding(group) == Holding::kOwned; }
  bool holds(int group) const { return holding(group) != Holding::kNothing; }

  /// The codes of a quantized group; null for others. A quantized group has no master and no working copy.
  const QuantizedGroup* quantized(int group) const {
    const auto& codes = groups_[static_cast<std::size_t>(group)].quantized;
    return codes ? &*codes : nullptr;
  }
  /// This rank's shard of a group's fp32 master and optimizer state; starts at element first_owned().
  const Tensor& master(int group) const { return groups_[static_cast<std::size_t>(group)].master; }
  const Tensor& state(int group, int index) const {
    return groups_[static_cast<std::size_t>(group)].states[static_cast<std::size_t>(index)];
  }
  /// The working copy: whole, or this rank's piece from stage 3 on. A gather into it may be in flight.
  const Tensor& working(int group) const { return groups_[static_cast<std::size_t>(group)].working; }
  /// This rank's shard of a group's averages; for a frozen group, the master.
  const Tensor& average(int group) const;
  bool has_averages() const { return options_.ema > 0; }
  /// Sets the averages to the masters.
  void restart_averages();
  /// Exchanges this rank's masters and averages of a group, and updates its piece of the working copy. See
  /// [Note: averages].
  void swap_averages(int group);
  std::int64_t first_owned(int group) const;
  /// Sharding of masters and optimizer state over the data axis.
  const Sharding& sharding() const { return sharding_; }
  const DataAxis& axis() const { return axis_; }
  /// Names of a group's optimizer state, by the index of state(); empty for a frozen group.
  const std::vector<std::string>& state_names(int group) const;
  /// The whole of a sharded flat tensor (master or state), for saving. Collective from stage 1 on.
  Tensor whole(int group, const Tensor& owned) const;

  /// True if uses need gather() and release() around them.
  bool shards_parameters() const { return options_.sharded.parameters; }

  /// Updates this rank's part of a group from its gradient, flat like the master. `scalars.lr` is indexed
  /// like ModelLayout::lr_scales.
  void update(int group, const Optimizer& optimizer, const UpdateScalars& scalars, const Tensor& gradient);
  /// True if working copies are whole and several ranks update pieces of them.
  bool gathers_updates() const {
    return options_.sharded.optimizer && !options_.sharded.parameters && axis_.size() > 1;
  }
  /// Starts to gather a whole working copy from all ranks' updated pieces. Collective.
  void gather_updated(int group);
  /// Waits for gathers in flight, so that callers may write masters and state.
  void settle();
  /// Brings the working copies up to date after a caller wrote masters. Collective from stage 1 on.
  void refresh_working();

  /// Sends this rank's piece of an owned group's working copy to a rank of another stage, which receives it
  /// instead of updating. `comm` spans the pipeline axis. See [Note: tied over stages].
  void send_working(int group, Communicator& comm, int stage);
  void receive_working(int group, Communicator& comm, int stage);

 private:
  struct Group {
    std::optional<QuantizedGroup> quantized;  // instead of all other tensors
    Tensor working;                           // whole, or this rank's piece
    Tensor gathered;                          // of a piece, while resident
    Tensor master;
    std::vector<Tensor> states;
    Tensor average;             // undefined if there are no averages
    Work gather;                // into `working` or `gathered`
    bool owes_in_host = false;  // gather_in_host() must follow
    std::vector<Work> sends;    // of `working`, to stages that hold a copy
    int users = 0;              // calls of gather() minus calls of release()
  };
  Holding holding(int group) const {
    return options_.holdings.empty() ? Holding::kOwned : options_.holdings[static_cast<std::size_t>(group)];
  }
  void allocate(int group);
  void initialize(const BlockList& blocks, int group, std::uint64_t seed);
  void initialize_quantized(const BlockList& blocks, int group, std::uint64_t seed);
  /// This rank's piece of the working copy.
  Tensor owned_working(int group) const;
  /// Sets the working copy to the master.
  void cast_working(int group);
  const Tensor& resident(const Group& group) const {
    return options_.sharded.parameters ? group.gathered : group.working;
  }
  /// Starts to gather `own` into `whole`, both of the group.
  void start_gather(Group& group, const Tensor& own, const Tensor& whole);
  /// Calls visit(first, length, run) for this rank's part of every run, relative to its piece.
  template <class Visit>
  void for_each_owned_run(int group, const Visit& visit) const;

  const Context ctx_;
  const ModelLayout& layout_;
  const DataAxis axis_;
  const ParamStoreOptions options_;
  const Sharding sharding_;
  const std::vector<std::string> state_names_, matrix_state_names_;
  std::vector<Group> groups_;
};

}  // namespace trireme
