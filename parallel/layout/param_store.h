// Parameters and optimizer state of one rank, group by group, in flat buffers.
//
// [Note: what is where] Per group of n elements, p = a piece of n / N, on N data ranks:
//
//     stage        working copy (compute dtype)           fp32 master and optimizer state
//     0            n                                      n
//     1, 2         n, gathered after each update          p
//     3            p; n between gather() and release()    p
//
// A plan decides when that is: around every use, or from a step's first use to its last. In fp32 the master
// is the working copy, or lies inside of it: no second copy exists. Gathered buffers of stage 3 are counted
// as communication. Gathers stay in flight until the values are needed.
//
// [Note: averages] With ParamStoreOptions::ema every trained group has one more fp32 tensor beside its
// optimizer state, sharded like the master: average = ema * average + (1 - ema) * master after every update
// that is not skipped, from the initial parameters, or those that were loaded, on. An evaluation of the
// averages exchanges masters and averages before its first forward and after its loss (SwapAverages of a
// plan), piece by piece, and lets the actions that follow an update bring the working copies up to date. So
// it takes no memory beside a step's but a staging buffer, and no exchange of its own. Rejected:
// working copies of the averages beside the others, which would double the parameters of ZeRO-0 to 2 for the
// sake of an evaluation; and averages that are gathered in place of the parameters, which unsharded
// parameters never are. Running statistics have no averages: they are averages themselves.
//
// [Note: offload] With Offload::kOptimizer the optimizer state, and a master of its own, are host memory
// (MemoryCategory::kHost), and the update runs on the host. Where the device is the host that is the same
// memory and the same update, accounted separately.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/layout/data_axis.h"
#include "parallel/layout/model_layout.h"
#include "parallel/layout/stage_groups.h"
#include "runtime/context.h"
#include "runtime/optim/optimizer.h"

namespace trireme {

/// The state that lies in host memory, with the update running there.
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
  std::vector<Holding> holdings;  // by group, what this rank's stage holds; empty: it owns all of them
  std::optional<std::int64_t> memory_limit;  // of the allocator, for [Note: staging]
};

class ParamStore {
 public:
  /// Elements that swap_averages() copies at a time, or fewer: [Note: staging].
  static constexpr std::int64_t kSwapElems = 1 << 18;

  /// Allocates all groups that are held; on a device that computes, initialises what this rank owns.
  /// Collective over the data axis from stage 1 on. Copies of what other stages own are to be
  /// received before their first use. Throws Error(kUnsupported) for offload from a device with memory of its
  /// own.
  ParamStore(const Context& ctx, const BlockList& blocks, const ModelLayout& layout,
             const Optimizer& optimizer, DataAxis axis, const ParamStoreOptions& options);

  /// The working copy of a parameter, which is it minus center(use). Throws when its group is not resident.
  Tensor value(const ParamUse& use);
  float center(const ParamUse& use) const;

  /// Makes a sharded group's working copy resident, or keeps it so for one more user.
  /// Collective.
  void gather(int group);
  /// The second half of what was gathered, or brought up to date, on an axis of two levels: from the other
  /// ranks of the host. Collective over those.
  void gather_in_host(int group);
  /// Gives up one use; the last one frees the gathered copy.
  void release(int group);

  /// True if this rank's stage owns the group; if it holds a working copy of it.
  bool owns(int group) const { return holding(group) == Holding::kOwned; }
  bool holds(int group) const { return holding(group) != Holding::kNothing; }

  /// This rank's shard of a group's fp32 master and optimizer state: from element first_owned() on.
  const Tensor& master(int group) const { return groups_[static_cast<std::size_t>(group)].master; }
  const Tensor& state(int group, int index) const {
    return groups_[static_cast<std::size_t>(group)].states[static_cast<std::size_t>(index)];
  }
  /// The working copy: whole, or from stage 3 on this rank's piece. A gather into it may be under way.
  const Tensor& working(int group) const { return groups_[static_cast<std::size_t>(group)].working; }
  /// The same of a group's averages; of a frozen group the master.
  const Tensor& average(int group) const;
  bool has_averages() const { return options_.ema > 0; }
  /// Sets them to the masters.
  void restart_averages();
  /// Exchanges what this rank owns of a group's masters and averages, and brings its piece of the working
  /// copy up to date. See [Note: averages].
  void swap_averages(int group);
  std::int64_t first_owned(int group) const;
  /// Of masters and optimizer state over the data axis.
  const Sharding& sharding() const { return sharding_; }
  const DataAxis& axis() const { return axis_; }
  /// Of the optimizer's state of a group, by the index of state(); none of a frozen one.
  const std::vector<std::string>& state_names(int group) const;
  /// All of a flat tensor of which every rank owns a piece (master or state), for saving. Collective from
  /// stage 1 on.
  Tensor whole(int group, const Tensor& owned) const;

  /// True if gather() and release() are called around uses.
  bool shards_parameters() const { return options_.sharded.parameters; }

  /// Updates what this rank owns of a group from its gradient, flat like the master. `scalars.lr` is by
  /// ModelLayout::lr_scales.
  void update(int group, const Optimizer& optimizer, const UpdateScalars& scalars, const Tensor& gradient);
  /// True if a working copy is whole, and updated in pieces by several ranks.
  bool gathers_updates() const {
    return options_.sharded.optimizer && !options_.sharded.parameters && axis_.size() > 1;
  }
  /// Starts to bring a whole working copy up to date from all ranks' pieces. Collective.
  void gather_updated(int group);
  /// Waits for gathers in flight, so that masters and state may be written from outside.
  void settle();
  /// After masters were written from outside: brings the working copies up to date. Collective from stage 1
  /// on.
  void refresh_working();

  /// Sends this rank's piece of an owned group's working copy to a rank of another stage, which receives it
  /// in place of an update. `comm` is that of the pipeline axis. See [Note: tied over stages].
  void send_working(int group, Communicator& comm, int stage);
  void receive_working(int group, Communicator& comm, int stage);

 private:
  struct Group {
    Tensor working;   // whole, or this rank's piece
    Tensor gathered;  // of a piece, while resident
    Tensor master;
    std::vector<Tensor> states;
    Tensor average;             // undefined: none
    Work gather;                // of `working` or `gathered`
    bool owes_in_host = false;  // what it brings is to be gathered inside of the host, too
    std::vector<Work> sends;    // of `working`, to stages that hold a copy
    int users = 0;              // gather() minus release()
  };
  Holding holding(int group) const {
    return options_.holdings.empty() ? Holding::kOwned : options_.holdings[static_cast<std::size_t>(group)];
  }
  void allocate(int group);
  void initialize(const BlockList& blocks, int group, std::uint64_t seed);
  /// This rank's piece of the working copy.
  Tensor owned_working(int group) const;
  /// Sets it to the master.
  void cast_working(int group);
  const Tensor& resident(const Group& group) const {
    return options_.sharded.parameters ? group.gathered : group.working;
  }
  /// Starts to gather `own` into `whole`, both of the group.
  void start_gather(Group& group, const Tensor& own, const Tensor& whole);
  /// Calls visit(first, length, run) for the part of every run that this rank owns, relative to its piece.
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
