#include "parallel/layout/model_layout.h"

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

/// Kinds of parameter groups of a block, in order.
enum class GroupKind : std::uint8_t { kPlain, kMatrices, kFrozen, kQuantized };

struct Builder {
  const BlockList& blocks;
  const ParameterRules& rules;
  ModelLayout layout;
  std::set<std::string> tied_targets;
  std::map<std::string, std::pair<int, int>> owners;  // full name -> group, slot

  void add_group(const std::string& name, int block, const std::vector<int>& indices,
                 GroupKind kind_of_group = GroupKind::kPlain) {
    const bool matrices = kind_of_group == GroupKind::kMatrices;
    const auto& specs = blocks[static_cast<std::size_t>(block)]->parameters();
    ParamGroup group{.name = name,
                     .chunk = specs[static_cast<std::size_t>(indices.front())].slice.chunk,
                     .frozen = rule_of_index(block, indices.front()).frozen,
                     .quantized = kind_of_group == GroupKind::kQuantized,
                     .matrices = matrices,
                     .first_norm_block = layout.num_norm_blocks};
    for (const int index : indices) {
      group.chunks = std::max(group.chunks, specs[static_cast<std::size_t>(index)].slice.chunks);
    }
    std::map<std::pair<bool, float>, std::vector<int>> kinds;  // (does not decay, center)
    for (const int index : indices) {
      const ParameterSpec& spec = specs[static_cast<std::size_t>(index)];
      kinds[{!spec.decay, spec.center}].push_back(index);
    }
    for (const auto& [kind, members] : kinds) {
      bool joins = false;  // a run never spans two kinds
      for (const int index : members) {
        const ParameterSpec& spec = specs[static_cast<std::size_t>(index)];
        const std::string full = blocks[static_cast<std::size_t>(block)]->full_name(spec);
        const bool fresh = owners
                               .emplace(full, std::pair(static_cast<int>(layout.groups.size()),
                                                        static_cast<int>(group.slots.size())))
                               .second;
        TRIREME_CHECK(fresh, "two parameters are called '{}'", full);
        group.slots.push_back({.block = block,
                               .index = index,
                               .name = full,
                               .shape = spec.shape,
                               .offset = group.num_elems,
                               .center = spec.center,
                               .slice = spec.slice});
        const std::int64_t elems = round_up(spec.shape.num_elems(), kNormBlock);
        ParamRun run{.last = elems, .center = kind.second};
        if (matrices) run.matrix = spec.shape;
        add_to_runs(group, rule_of_index(block, index), run, joins);
        joins = !matrices;
        layout.num_parameters += spec.shape.num_elems();
        if (group.frozen) layout.num_frozen += spec.shape.num_elems();
      }
    }
    layout.num_norm_blocks += group.num_elems / kNormBlock;
    const int bucket = add_bucket(block, static_cast<int>(layout.groups.size()), 0, group.frozen);
    for (std::size_t s = 0; s < group.slots.size(); ++s) {
      layout.uses[static_cast<std::size_t>(block)][static_cast<std::size_t>(group.slots[s].index)] = {
          static_cast<int>(layout.groups.size()), static_cast<int>(s), bucket};
    }
    layout.groups.push_back(std::move(group));
  }

  ParameterRule rule_of_index(int block, int index) const {
    const Block& b = *blocks[static_cast<std::size_t>(block)];
    const ParameterSpec& spec = b.parameters()[static_cast<std::size_t>(index)];
    return rule_of(rules, spec, b.full_name(spec));
  }

  // For parameters that are not tied.
  GroupKind kind_of(int block, int index) const {
    const ParameterRule rule = rule_of_index(block, index);
    const Block& b = *blocks[static_cast<std::size_t>(block)];
    const ParameterSpec& spec = b.parameters()[static_cast<std::size_t>(index)];
    if (rule.frozen) {
      return rules.quantizes && spec.allows_fp8 ? GroupKind::kQuantized : GroupKind::kFrozen;
    }
    const bool is_matrix = is_hidden_matrix(blocks, static_cast<std::size_t>(block), spec);
    if (!rules.separates_matrices || !is_matrix) return GroupKind::kPlain;
    TRIREME_CHECK(spec.slice.is_whole(),
                  "matrix '{}' is cut into tensor chunks: an optimizer that updates whole matrices cannot "
                  "have it",
                  b.full_name(spec));
    return GroupKind::kMatrices;
  }

  // Appends `run.last` elements to a group. With `joins`, extends the last run if it has the same rule.
  void add_to_runs(ParamGroup& group, const ParameterRule& rule, ParamRun run, bool joins) {
    auto& scales = layout.lr_scales;
    const auto scale = std::ranges::find(scales, rule.lr_scale);
    run.lr = static_cast<int>(scale - scales.begin());
    if (scale == scales.end()) scales.push_back(rule.lr_scale);
    run.decay = rule.decay;
    run.first = group.num_elems;
    group.num_elems += run.last;
    run.last = group.num_elems;
    if (joins && group.runs.back().decay == run.decay && group.runs.back().lr == run.lr) {
      group.runs.back().last = run.last;
    } else {
      group.runs.push_back(run);
    }
  }

  int add_bucket(int unit, int group, int use, bool frozen) {
    const int bucket = static_cast<int>(layout.buckets.size());
    layout.buckets.push_back({unit, group, use});
    if (!frozen) layout.unit_buckets[static_cast<std::size_t>(unit)].push_back(bucket);
    layout.unit_groups[static_cast<std::size_t>(unit)].push_back(group);  // a block has one bucket per group
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
    const auto use = std::ranges::count(layout.buckets, group, &GradBucket::group);
    const bool frozen = layout.groups[static_cast<std::size_t>(group)].frozen;
    layout.uses[static_cast<std::size_t>(block)][static_cast<std::size_t>(index)] = {
        group, slot, add_bucket(block, group, static_cast<int>(use), frozen)};
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
      std::map<std::pair<int, GroupKind>, std::vector<int>> own;  // by chunk
      for (int i = 0; i < static_cast<int>(block.parameters().size()); ++i) {
        const ParameterSpec& spec = block.parameters()[static_cast<std::size_t>(i)];
        if (!spec.tied_to.empty()) {
          add_tied_use(b, i);
        } else if (tied_targets.contains(block.full_name(spec))) {
          add_group(block.full_name(spec), b, {i});
        } else {
          own[{spec.slice.chunk, kind_of(b, i)}].push_back(i);
        }
      }
      for (const auto& [part, indices] : own) {
        std::string name = block.name();
        if (part.first >= 0) name += fmt::format(" chunk {}", part.first);
        if (part.second == GroupKind::kMatrices) name += " matrices";
        if (part.second == GroupKind::kFrozen) name += " frozen";
        if (part.second == GroupKind::kQuantized) name += " quantized";
        add_group(name, b, indices, part.second);
      }
    }
    return std::move(layout);
  }
};

void check_rules(const BlockList& blocks, const ParameterRules& rules) {
  if (rules.empty()) return;
  const std::vector<std::string> names = parameter_names(blocks);
  std::vector<std::string> patterns = rules.frozen;
  patterns.insert(patterns.end(), rules.trained.begin(), rules.trained.end());
  for (const auto& [pattern, scale] : rules.lr_scale) {
    TRIREME_CHECK(scale > 0, "ParameterRules::lr_scale of '{}' must be above 0, got {}", pattern, scale);
    patterns.push_back(pattern);
  }
  for (const auto& [pattern, scale] : rules.decay_scale) {
    TRIREME_CHECK(scale >= 0, "ParameterRules::decay_scale of '{}' must not be negative, got {}", pattern,
                  scale);
    patterns.push_back(pattern);
  }
  const std::string unmatched = unmatched_pattern(patterns, names);
  TRIREME_CHECK(unmatched.empty(), "ParameterRules: no parameter is called like '{}'", unmatched);
}

// Rewrites a layout with one group per block into one with fewer groups. See [Note: merged groups].
class Merger {
 public:
  Merger(ModelLayout layout, std::int64_t min_bytes, const StageMap& stages)
      : before_(std::move(layout)), min_bytes_(min_bytes), stages_(stages) {
    tied_.resize(before_.groups.size());
    for (const GradBucket& bucket : before_.buckets) {
      if (bucket.use > 0) tied_[static_cast<std::size_t>(bucket.group)] = true;
    }
  }

  ModelLayout merge() {
    ModelLayout after{.num_norm_blocks = before_.num_norm_blocks,
                      .num_parameters = before_.num_parameters,
                      .num_frozen = before_.num_frozen,
                      .lr_scales = before_.lr_scales};
    for (std::size_t g = 0; g < before_.groups.size(); ++g) {
      const bool joins = g > 0 && is_small(g - 1) && is_small(g) && chunk_of(g - 1) == chunk_of(g) &&
                         before_.groups[g - 1].chunk == before_.groups[g].chunk &&
                         before_.groups[g - 1].frozen == before_.groups[g].frozen &&
                         before_.groups[g - 1].matrices == before_.groups[g].matrices;
      const int first_slot = joins ? static_cast<int>(after.groups.back().slots.size()) : 0;
      if (joins) {
        append(after.groups.back(), before_.groups[g]);
      } else {
        after.groups.push_back(before_.groups[g]);
      }
      moved_.push_back({static_cast<int>(after.groups.size()) - 1, first_slot});
    }
    rewrite_uses(after);
    return after;
  }

 private:
  struct Moved {
    int group = 0;
    int first_slot = 0;
  };

  bool is_small(std::size_t g) const {
    const auto bytes = before_.groups[g].num_elems * static_cast<std::int64_t>(sizeof(float));
    return !tied_[g] && !before_.groups[g].quantized && bytes < min_bytes_;
  }

  int chunk_of(std::size_t g) const {
    return stages_.bounds.empty() ? 0 : stages_.chunk_of(before_.groups[g].slots.front().block);
  }

  static void append(ParamGroup& to, const ParamGroup& from) {
    for (ParamSlot slot : from.slots) {
      slot.offset += to.num_elems;
      to.slots.push_back(std::move(slot));
    }
    for (ParamRun run : from.runs) {
      run.first += to.num_elems;
      run.last += to.num_elems;
      to.runs.push_back(run);
    }
    to.num_elems += from.num_elems;
    to.name = to.name.substr(0, to.name.find(" to ")) + " to " + from.name;
  }

  void rewrite_uses(ModelLayout& after) const {
    std::vector<int> bucket_of;  // index of each bucket in `after`
    for (const GradBucket& bucket : before_.buckets) {
      const int group = moved_[static_cast<std::size_t>(bucket.group)].group;
      const auto same = std::ranges::find_if(
          after.buckets, [&](const GradBucket& b) { return b.group == group && b.use == bucket.use; });
      bucket_of.push_back(static_cast<int>(same - after.buckets.begin()));
      if (same == after.buckets.end()) after.buckets.push_back({bucket.unit, group, bucket.use});
    }
    for (std::size_t u = 0; u < before_.uses.size(); ++u) {
      std::vector<int>& buckets = after.unit_buckets.emplace_back();
      std::vector<int>& groups = after.unit_groups.emplace_back();
      for (const int b : before_.unit_buckets[u]) {
        const int bucket = bucket_of[static_cast<std::size_t>(b)];
        if (std::ranges::find(buckets, bucket) == buckets.end()) buckets.push_back(bucket);
      }
      for (const int g : before_.unit_groups[u]) {
        const int group = moved_[static_cast<std::size_t>(g)].group;
        if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
      }
      std::vector<ParamUse>& uses = after.uses.emplace_back();
      for (const ParamUse& use : before_.uses[u]) {
        const Moved& moved = moved_[static_cast<std::size_t>(use.group)];
        uses.push_back(
            {moved.group, moved.first_slot + use.slot, bucket_of[static_cast<std::size_t>(use.bucket)]});
      }
    }
  }

  const ModelLayout before_;
  const std::int64_t min_bytes_;
  const StageMap& stages_;
  std::vector<bool> tied_;
  std::vector<Moved> moved_;  // by group before
};

}  // namespace

ModelLayout make_layout(const BlockList& blocks, std::int64_t group_min_bytes, const StageMap& stages,
                        const ParameterRules& rules) {
  TRIREME_CHECK(!blocks.empty(), "a model needs at least one block");
  TRIREME_CHECK(group_min_bytes >= 0, "group_min_bytes = {} must not be negative", group_min_bytes);
  check_rules(blocks, rules);
  ModelLayout layout =
      Merger(Builder{.blocks = blocks, .rules = rules}.build(), group_min_bytes, stages).merge();
  TRIREME_CHECK(!rules.freezes() || layout.num_frozen < layout.num_parameters,
                "ParameterRules: what is frozen leaves none of {} parameters to train",
                layout.num_parameters);
  TRIREME_CHECK(
      !rules.separates_matrices || std::ranges::any_of(layout.groups, &ParamGroup::matrices),
      "an optimizer that updates whole matrices has nothing to do: no block between the first and the "
      "last has one that is trained");
  TRIREME_CHECK(!rules.quantizes || std::ranges::any_of(layout.groups, &ParamGroup::quantized),
                "ParameterRules::quantizes: no weight of a linear layer is frozen");
  return layout;
}

}  // namespace trireme
