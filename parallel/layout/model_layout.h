// Lays out the parameters of a model: flat groups, a canonical global order, and the uses of each parameter.
//
// [Note: parameter order] Groups follow the blocks. A block's parameters form one group. Inside it,
// parameters with weight decay come first, then parameters are sorted by their center. Each starts at a
// multiple of kNormBlock elements, and gaps are zero. A parameter that another block is tied to has its own
// group, just before its block's. Each use of it has its own gradient buffer (a bucket; gradient bucketing):
// uses accumulate separately and are added in block order. The order depends only on the model, the frozen
// parameters and the optimizer's rule, never on the layout of ranks.
//
// [Note: frozen parameters] The frozen parameters of a block form their own group, after the group of trained
// ones. So a whole group either has gradients, optimizer state and an update, or has none of them, and
// shards, exchanges and norms work on trained groups without ranges inside a group. A frozen group has
// working copies and masters and is gathered like any other; no unit's backward writes its bucket. Rejected:
// the trained part as a prefix of one group (every piece of every shard would have to be split by it), and
// lists of frozen elements with buffers for all (no memory is saved).
//
// [Note: quantized groups] With ParameterRules::quantizes, the frozen weights of a block's inner linear
// layers form the group after the frozen ones, and are stored as NF4 codes only ([Note: nf4] in
// runtime/base/nf4.h). Every data rank has the whole group at every ZeRO stage: sharding would save less than
// a gather of numbers needs as a buffer. So the group is never gathered. It has neither masters nor working
// copies, and is not merged. A weight in tensor chunks has such a group for each chunk, which is quantized on
// its own, so no block of codes spans two chunks.
//
// [Note: groups of matrices] An optimizer that updates whole matrices (Muon) has different state for them. So
// the matrices of a block form their own group, one run per matrix, between the group of other trained
// parameters and the group of frozen ones. They are the trained, untied parameters with two dimensions and
// weight decay, in every block but the first and the last, which have the embeddings and the head.
//
// [Note: merged groups] Neighbouring groups that are both smaller than `group_min_bytes` are concatenated, so
// that they travel in one message and are padded once. The order of elements stays, and so do all sums. A
// merged group is resident from the first gather of any of its blocks to the last release. Its gradient is
// complete, and reduced, with the backward of its first block. Tied groups are not merged.
//
// [Note: groups of chunks] If a block is cut into tensor chunks, the parameters of each chunk form their own
// group, after the group that all chunks read. So the unit in which state is sharded, gathered and reduced
// belongs to the ranks of one tensor coordinate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/layout/parameter_rules.h"
#include "parallel/layout/stage_map.h"
#include "runtime/block.h"

namespace trireme {

struct ParamSlot {
  int block = 0;
  int index = 0;  // in the block's parameters()
  std::string name;
  Shape shape;
  std::int64_t offset = 0;  // elements from the start of the group
  float center = 0.0f;      // see [Note: centered working copies]
  ParameterSlice slice;     // for parameters cut into tensor chunks
};

/// Elements [first, last) of a group with one optimizer rule and one center.
struct ParamRun {
  std::int64_t first = 0, last = 0;
  float decay = 1.0f;  // factor of weight decay
  float center = 0.0f;
  int lr = 0;                   // index in ModelLayout::lr_scales
  std::optional<Shape> matrix;  // groups of matrices only: its shape; padding follows it
};

struct ParamGroup {
  std::string name;
  std::vector<ParamSlot> slots;
  std::vector<ParamRun> runs;         // cover all elements, in order
  std::int64_t num_elems = 0;         // with gaps; a multiple of kNormBlock
  int chunk = -1;                     // index of the tensor chunk; -1: every tensor rank has the group
  int chunks = 1;                     // number of chunks
  bool frozen = false;                // see [Note: frozen parameters]
  bool quantized = false;             // see [Note: quantized groups]; such a group is frozen, too
  bool matrices = false;              // see [Note: groups of matrices]
  std::int64_t first_norm_block = 0;  // index of its first block of kNormBlock elements in the model
};

/// One gradient buffer: the contribution of one use of a group to its gradient.
struct GradBucket {
  int unit = 0;  // its backward completes the bucket: the only writer, or the first unit of a merged group
  int group = 0;
  int use = 0;  // 0: the owner; k: the k-th further use, in block order
};

/// The target of ParamRef{index} of a block.
struct ParamUse {
  int group = 0;
  int slot = 0;
  int bucket = 0;
};

struct ModelLayout {
  std::vector<ParamGroup> groups;
  std::vector<GradBucket> buckets;             // by unit, ascending; buckets of frozen groups stay empty
  std::vector<std::vector<int>> unit_buckets;  // [unit] -> buckets that its backward writes
  std::vector<std::vector<int>> unit_groups;   // [unit] -> groups that it uses, each once
  std::vector<std::vector<ParamUse>> uses;     // [unit][ParamRef::index]
  std::int64_t num_norm_blocks = 0;
  std::int64_t num_parameters = 0;     // tied parameters once, without gaps
  std::int64_t num_frozen = 0;         // frozen ones among num_parameters
  std::vector<float> lr_scales{1.0f};  // factors of the learning rate, distinct; the first is 1
};

/// Throws Error(kInvalidInput) for a duplicate name, and for a tie to a parameter that no earlier block
/// declares or whose shape differs. Also throws if a pattern of `rules` matches no parameter, if nothing is
/// left to train, and, for rules that separate matrices, if there are none or one is in tensor chunks.
/// `group_min_bytes`: size of fp32 parameters, see [Note: merged groups]; 0 merges nothing. With `stages`,
/// groups are not merged across chunk bounds.
ModelLayout make_layout(const BlockList& blocks, std::int64_t group_min_bytes = 0,
                        const StageMap& stages = {}, const ParameterRules& rules = {});

}  // namespace trireme
