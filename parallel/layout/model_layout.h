// Lays out the parameters of a model: flat groups, a canonical global order, and who uses what.
//
// [Note: parameter order] Groups follow the blocks. A block's parameters form one group, those that decay
// first, then by their center, each starting at a multiple of kNormBlock elements, the gaps zero. A parameter
// that another block is tied to gets a group of its own, just before its block's, and each use of it has a
// gradient buffer of its own (a bucket; gradient bucketing): uses accumulate separately and are added in
// block order. The order depends on the model, on what is frozen and on the rule of the update alone, never
// on the layout of ranks.
//
// [Note: frozen parameters] What is frozen of a block is a group of its own, behind the group of what is
// trained. So a group has gradients, optimizer state and an update, or none of them, and all that is done
// with flat groups (shards, exchanges, norms) is done for trained ones alone, with no range inside of a group
// to know of. A frozen group has working copies and masters, is gathered like any other, and no unit's
// backward writes its bucket. Rejected: the trained part as a prefix of one group, which every piece of every
// shard would have to be cut by; and lists of frozen elements beside buffers for all, which save no memory.
//
// [Note: groups of matrices] For an optimizer that updates whole matrices (Muon), those of a block are a
// group of their own, each a run of its own, between the group of what else is trained and what is frozen:
// they have other optimizer state. They are the trained parameters of two dimensions with weight decay of
// every block but the first and the last, which have the embeddings and the head, and none that is tied.
//
// [Note: merged groups] Neighbouring groups that are both smaller than `group_min_bytes` become one, one
// behind the other, so that they travel in one message and are padded once. The order of elements stays, and
// with it every sum. A merged group is resident from the first gather of any of its blocks to the last
// release, and its gradient is complete, and reduced, with the backward of its first block. Tied groups stay
// alone.
//
// [Note: groups of chunks] Of a block that is cut into tensor chunks, the parameters of each chunk form a
// group of their own, behind the group of those that all chunks read. So the unit in which state is sharded,
// gathered and reduced lies with the ranks of one tensor place.
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
  ParameterSlice slice;     // of a parameter that is cut into tensor chunks
};

/// Elements [first, last) of a group with one rule of the update and one center.
struct ParamRun {
  std::int64_t first = 0, last = 0;
  float decay = 1.0f;  // factor of weight decay
  float center = 0.0f;
  int lr = 0;                   // in ModelLayout::lr_scales
  std::optional<Shape> matrix;  // that it is, without the padding behind it: in groups of matrices
};

struct ParamGroup {
  std::string name;
  std::vector<ParamSlot> slots;
  std::vector<ParamRun> runs;         // all of the elements, in order
  std::int64_t num_elems = 0;         // with gaps; a multiple of kNormBlock
  int chunk = -1;                     // of which tensor chunk; -1: of none, every tensor place has it
  int chunks = 1;                     // of how many
  bool frozen = false;                // see [Note: frozen parameters]
  bool matrices = false;              // see [Note: groups of matrices]
  std::int64_t first_norm_block = 0;  // index of its first block of kNormBlock elements in the model
};

/// One gradient buffer: what a use of group `group` contributes to its gradient.
struct GradBucket {
  int unit = 0;  // whose backward completes it: the only one that writes it, or the first of a merged group
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
  std::vector<GradBucket> buckets;             // by unit, ascending; those of frozen groups stay empty
  std::vector<std::vector<int>> unit_buckets;  // [unit] -> buckets that its backward writes
  std::vector<std::vector<int>> unit_groups;   // [unit] -> groups that it uses, each once
  std::vector<std::vector<ParamUse>> uses;     // [unit][ParamRef::index]
  std::int64_t num_norm_blocks = 0;
  std::int64_t num_parameters = 0;     // tied ones once, without gaps
  std::int64_t num_frozen = 0;         // of these
  std::vector<float> lr_scales{1.0f};  // factors of the learning rate, each once; the first is 1
};

/// Throws Error(kInvalidInput) for a duplicate name, or a tie to a parameter that no earlier block declares
/// or whose shape differs. `group_min_bytes`: of fp32 parameters, see [Note: merged groups]; 0 merges
/// nothing. With `stages`, nothing over the bound of two chunks either. Throws, too, for a pattern of `rules`
/// that no parameter has, where nothing is left to train, and for matrices in tensor chunks, or none, of
/// rules that separate them.
ModelLayout make_layout(const BlockList& blocks, std::int64_t group_min_bytes = 0,
                        const StageMap& stages = {}, const ParameterRules& rules = {});

}  // namespace trireme
