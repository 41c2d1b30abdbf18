// Runs the blocks of a rank once before it posts messages, so that nothing waits for the whole device
// afterwards.
//
// [Note: dry runs] Libraries make their plans when a call of a shape first runs. That may load modules,
// allocate, and hold the host up until the device has done all of its work. A stage of a pipeline that has
// posted a receive would wait there for a message that its peer sends after one that this stage has still to
// post: both wait for ever, in a plan that was proved free of deadlocks. Collectives are no such case: all
// ranks of a group come to them whatever one of them waits for.
//
// So every call of a play is made before the play, when the host has posted all that peers wait for: a block
// at a time, on zeros, with parameters, gradients and samples of statistics that are its own and freed at
// once. No state of the job is read or written, random numbers are functions of keys, and the sums of a later
// call do not depend on an earlier one: no bit of a step changes. It needs less memory than the step, in
// which the same is alive beside more, and is no part of what is measured.
#pragma once

#include <set>

#include "parallel/layout/boundary_shapes.h"
#include "parallel/layout/stage_map.h"
#include "runtime/context.h"
#include "runtime/tape.h"

namespace trireme {

class DryRun {
 public:
  /// All references outlive this.
  struct Options {
    const Context& ctx;
    const BlockList& blocks;
    const StageMap& stages;
    int stage = 0;  // whose units are run
    BoundaryShapes& shapes;
    SampleSpec sample;
    bool recomputes = false;  // whole blocks
    Recompute recompute = Recompute::kNone;
    bool two_part_backward = false;  // see [Note: backward in two parts]
  };
  explicit DryRun(Options options) : options_(std::move(options)) {}

  /// Runs what has not run yet of micro-batches of such a play; waits for the device. To be called between
  /// plays. Throws what the blocks throw, with the block's name in front.
  void cover(const BoundaryShapes::Play& play);

 private:
  void run(int unit, const BoundaryShapes::Play& play) const;
  std::size_t upload_bytes(const BoundaryShapes::Play& play) const;
  Batch batch_of(int unit, const BoundaryShapes::Play& play) const;
  bool is_last(int unit) const { return unit + 1 == options_.stages.num_units(); }

  const Options options_;
  std::set<BoundaryShapes::Play> covered_;
};

}  // namespace trireme
