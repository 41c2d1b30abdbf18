#include "parallel/model_layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "kernels/backend.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

struct Builder {
  const BlockList& blocks;
  ModelLayout layout;
  std::set<std::string> tied_targets;
  std::map<std::string, std::pair<int, int>> owners;  // full name -> group, slot

  void add_group(const std::string& name, int block, const std::vector<int>& indices) {
    ParamGroup group{.name = name, .first_norm_block = layout.num_norm_blocks};
    const auto& specs = blocks[static_cast<std::size_t>(block)]->parameters();
    for (const bool decay : {true, false}) {
      for (const int index : indices) {
        const ParameterSpec& spec = specs[static_cast<std::size_t>(index)];
        if (spec.decay != decay) continue;
        const std::string full = blocks[static_cast<std::size_t>(block)]->full_name(spec);
        const bool fresh = owners
                               .emplace(full, std::pair(static_cast<int>(layout.groups.size()),
                                                        static_cast<int>(group.slots.size())))
                               .second;
        TRIREME_CHECK(fresh, "two parameters are called '{}'", full);
        group.slots.push_back(
            {.block = block, .index = index, .name = full, .shape = spec.shape, .offset = group.num_elems});
        group.num_elems += round_up(spec.shape.num_elems(), kNormBlock);
        layout.num_parameters += spec.shape.num_elems();
      }
      if (decay) group.decay_elems = group.num_elems;
    }
    layout.num_norm_blocks += group.num_elems / kNormBlock;
    const int bucket = add_bucket(block, static_cast<int>(layout.groups.size()), 0);
    for (std::size_t s = 0; s < group.slots.size(); ++s) {
      layout.uses[static_cast<std::size_t>(block)][static_cast<std::size_t>(group.slots[s].index)] = {
          static_cast<int>(layout.groups.size()), static_cast<int>(s), bucket};
    }
    layout.groups.push_back(std::move(group));
  }

  int add_bucket(int unit, int group, int use) {
    const int bucket = static_cast<int>(layout.buckets.size());
    layout.buckets.push_back({unit, group, use});
    layout.unit_buckets[static_cast<std::size_t>(unit)].push_back(bucket);
    layout.unit_groups[static_cast<std::size_t>(unit)].push_back(group);  // a block has one bucket a group
    return bucket;
  }

  void add_tied_use(int block, int index) {
    const Block& b = *blocks[static_cast<std::size_t>(block)];
    const ParameterSpec& spec = b.parameters()[static_cast<std::size_t>(index)];
    const auto owner = owners.find(spec.tied_to);
    TRIREME_CHECK(owner != owners.end(), "parameter '{}' is tied to '{}', which no earlier block declares",
                  b.full_name(spec), spec.tied_to);
    const auto [group, slot] = owner->second;
    const Shape& shape =
        layout.groups[static_cast<std::size_t>(group)].slots[static_cast<std::size_t>(slot)].shape;
    TRIREME_CHECK(shape == spec.shape, "parameter '{}' {} is tied to '{}' of another shape {}",
                  b.full_name(spec), spec.shape.to_string(), spec.tied_to, shape.to_string());
    const auto use = std::ranges::count_if(layout.buckets,
                                           [&](const GradBucket& bucket) { return bucket.group == group; });
    layout.uses[static_cast<std::size_t>(block)][static_cast<std::size_t>(index)] = {
        group, slot, add_bucket(block, group, static_cast<int>(use))};
  }

  ModelLayout build() {
    for (const auto& block : blocks) {
      for (const ParameterSpec& spec : block->parameters()) {
        if (!spec.tied_to.empty()) tied_targets.insert(spec.tied_to);
      }
    }
    layout.unit_buckets.resize(blocks.size());
    layout.unit_groups.resize(blocks.size());
    layout.uses.resize(blocks.size());
    for (int b = 0; b < static_cast<int>(blocks.size()); ++b) {
      const Block& block = *blocks[static_cast<std::size_t>(b)];
      layout.uses[static_cast<std::size_t>(b)].resize(block.parameters().size());
      std::vector<int> own;
      for (int i = 0; i < static_cast<int>(block.parameters().size()); ++i) {
        const ParameterSpec& spec = block.parameters()[static_cast<std::size_t>(i)];
        if (!spec.tied_to.empty()) {
          add_tied_use(b, i);
        } else if (tied_targets.contains(block.full_name(spec))) {
          add_group(block.full_name(spec), b, {i});
        } else {
          own.push_back(i);
        }
      }
      if (!own.empty()) add_group(block.name(), b, own);
    }
    return std::move(layout);
  }
};

}  // namespace

ModelLayout make_layout(const BlockList& blocks) {
  TRIREME_CHECK(!blocks.empty(), "a model needs at least one block");
  return Builder{.blocks = blocks}.build();
}

}  // namespace trireme
