// Runs the blocks of a rank once before it posts messages, so that no later call waits for the whole device.
//
// [Note: dry runs] A library plans a call when its shape first runs. Planning may load modules, allocate, and
// block the host until the device is idle. Suppose a pipeline stage has posted a receive and blocks in this
// way. It waits for a message that its peer sends only after another message, whose receive this stage has
// not posted yet. Both ranks wait forever, although the plan was proved free of deadlock. Collectives are
// safe: all ranks of a group reach them, whatever one of them waits for.
//
// So every call of a play is made before the play, when the host has posted everything that peers wait for.
// Blocks run one at a time, on zeros, with temporary parameters, gradients and samples of statistics that are
// freed at once. No bit of a step changes: no state of the job is read or written, random numbers are
// functions of keys, and the sums of a call do not depend on earlier calls. A dry run needs less memory than
// the step, which holds the same tensors and more, and is not part of measured memory or time.
#pragma once

#include <set>

#include "parallel/layout/boundary_shapes.h"
#include "parallel/layout/stage_map.h"
#include "runtime/context.h"
#include "runtime/tape.h"

namespace trireme {

class DryRun {
 public:
  /// All references must outlive the DryRun.
  struct Options {
    const Context& ctx;
    const BlockList& blocks;
    const StageMap& stages;
    int stage = 0;  // whose units run
    BoundaryShapes& shapes;
    SampleSpec sample;
    bool recomputes = false;  // whole blocks
    Recompute recompute = Recompute::kNone;
    bool two_part_backward = false;  // see [Note: backward in two parts]
  };
  explicit DryRun(Options options) : options_(std::move(options)) {}

  /// Runs the units on a micro-batch of this play, once per play; waits for the device. Call it between
  /// plays. Throws the blocks' errors, with the block's name in front.
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
