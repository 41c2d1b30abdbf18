#include "parallel/layout/layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "runtime/base/error.h"

namespace trireme {
namespace {

template <class T, std::size_t kCount>
std::vector<std::string_view> names_of(const T (&values)[kCount]) {
  std::vector<std::string_view> names;
  for (const T& value : values) names.push_back(name(value));
  return names;
}

constexpr PipelineSchedule kSchedules[] = {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward,
                                           PipelineSchedule::kInterleaved, PipelineSchedule::kZeroBubbleH1};
constexpr Recompute kRecomputes[] = {Recompute::kNone, Recompute::kSelective};
constexpr Exchange kExchanges[] = {Exchange::kAuto, Exchange::kFlat, Exchange::kHierarchical};

template <class T, std::size_t kCount>
T of_name(const T (&values)[kCount], std::string_view word) {
  for (const T& value : values) {
    if (name(value) == word) return value;
  }
  throw Error(ErrorCode::kInvalidInput, "\"{}\" is none of {}", word, fmt::join(names_of(values), ", "));
}
void read_name(std::string_view word, PipelineSchedule& value) {
  value = of_name(kSchedules, word);
}
void read_name(std::string_view word, Recompute& value) {
  value = of_name(kRecomputes, word);
}
void read_name(std::string_view word, Exchange& value) {
  value = of_name(kExchanges, word);
}

template <auto kMember>
LayoutValue get(const Layout& layout) {
  const auto& value = layout.*kMember;
  using T = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::vector<int>>) {
    return value;
  } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, ZeroStage>) {
    return static_cast<std::int64_t>(value);
  } else {
    return std::string(name(value));
  }
}

template <auto kMember>
void set(Layout& layout, const LayoutValue& given) {
  auto& value = layout.*kMember;
  using T = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::vector<int>>) {
    value = std::get<T>(given);
  } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, ZeroStage>) {
    value = static_cast<T>(std::get<std::int64_t>(given));
  } else {
    read_name(std::get<std::string>(given), value);
  }
}

struct FieldTraits {
  ChosenBy chosen_by = ChosenBy::kSearch;
  std::string_view no_eval = "";
};

std::vector<std::string_view> words_of(PipelineSchedule) {
  return names_of(kSchedules);
}
std::vector<std::string_view> words_of(Recompute) {
  return names_of(kRecomputes);
}
std::vector<std::string_view> words_of(Exchange) {
  return names_of(kExchanges);
}
std::vector<std::string_view> words_of(const auto&) {
  return {};
}

/// A row of the table.
template <auto kMember>
LayoutField field(std::string_view name, const FieldTraits& traits, std::string_view doc,
                  std::int64_t least = 0, std::int64_t most = std::numeric_limits<int>::max()) {
  return {.name = name,
          .get = get<kMember>,
          .set = set<kMember>,
          .least = least,
          .most = most,
          .words = words_of(Layout{}.*kMember),
          .chosen_by = traits.chosen_by,
          .no_eval = traits.no_eval,
          .doc = doc};
}

constexpr std::string_view kNoBackward = "an evaluation runs no backward pass";
constexpr std::string_view kWholeLogits = "an evaluation ranks classes in whole logits";

std::vector<LayoutField> make_fields() {
  using L = Layout;
  return {
      field<&L::pipeline>("pipeline", {},
                          "Pipeline stages that the blocks are cut into; data ranks = ranks / stages / "
                          "`tensor`. The results do not change.",
                          1, 4096),
      field<&L::tensor>(
          "tensor", {.no_eval = kWholeLogits},
          "Tensor parallelism: neighbouring ranks that share the `model.tensor_chunks` of every layer "
          "and read the same samples; data ranks = ranks / stages / `tensor`. Divides "
          "`model.tensor_chunks` and the heads (of `llama` `kv_heads`). The results do not change.",
          1, 64),
      field<&L::sequence>(
          "sequence", {.no_eval = kWholeLogits},
          "Sequence parallelism: the `tensor` ranks also share the rows of norms, dropout and the "
          "residual stream, so that all activations of a layer are divided by `tensor`. Its sums "
          "become reduce-scatters and all-gathers, and each layer gathers twice more in backward. For "
          "GPTs, Llamas and BERTs, where `tensor` divides the sequence. The results do not change."),
      field<&L::zero>(
          "zero", {},
          "ZeRO stage: each data rank keeps only its piece of 1: masters and optimizer state, 2: gradients "
          "too, 3: parameters too (FSDP, fully sharded). The results do not change.",
          0, 3),
      field<&L::accumulate_unsharded>(
          "accumulate_unsharded",
          {.chosen_by = ChosenBy::kMemory, .no_eval = "an evaluation has no gradients"},
          "`zero` 2 and 3: keep whole gradients over a step's micro-batches and reduce "
          "them once: more memory, less traffic (FSDP: `no_sync`). The results do not change."),
      field<&L::keep_gathered>(
          "keep_gathered",
          {.chosen_by = ChosenBy::kMemory,
           .no_eval = "an evaluation gathers parameters for each micro-batch"},
          "`zero` 3: gather each block's parameters once a step and keep them from their first "
          "use to their last, over all micro-batches: more memory, less traffic (FSDP: "
          "`reshard_after_forward` = False). The results do not change."),
      field<&L::prefetch_depth>(
          "prefetch_depth", {.chosen_by = ChosenBy::kNobody},
          "`zero` 3: number of blocks ahead of which parameters are gathered. 0: a block's "
          "parameters are gathered when it runs. The results do not change."),
      field<&L::group_min_bytes>(
          "group_min_bytes", {.chosen_by = ChosenBy::kNobody},
          "Neighbouring blocks whose fp32 parameters are smaller share their buffers and "
          "messages: less padding and fewer messages where blocks are small. An integer, or a "
          "string such as \"4 MiB\". 0: each block has its own. The results do not change.",
          0, std::numeric_limits<std::int64_t>::max()),
      field<&L::recompute_every>(
          "recompute_every", {.no_eval = kNoBackward},
          "Activation checkpointing: keep only the input of every segment of this many blocks, "
          "fewer than the model has, and run the segment again in backward. 0: keep everything. The results "
          "do not change."),
      field<&L::recompute>(
          "recompute", {.no_eval = kNoBackward},
          "`selective`: attention's queries, keys and values are dropped after forward and computed "
          "again in backward from the input, which is kept in any case. That saves 3/16 of what a "
          "GPT's blocks keep, for at most a twelfth more arithmetic. Softmax is not run again: no "
          "matrix over pairs of tokens exists that it could save. With `recompute_every`, which keeps "
          "no block whole, segments need less while their backward runs. The results do not change."),
      field<&L::schedule>(
          "schedule", {.no_eval = kNoBackward},
          "Order of micro-batches in a pipeline. `gpipe`: all forwards, then all backwards. `1f1b`: "
          "alternately, with fewer micro-batches alive. `interleaved`: as `1f1b` with several chunks of "
          "blocks on every rank, for a smaller pipeline bubble. `zb-h1`: as `1f1b`, with the weights' "
          "gradients computed separately while a stage would wait: a smaller bubble for more memory. No "
          "effect with one stage. The results do not change."),
      field<&L::chunks>("chunks", {.no_eval = kNoBackward},
                        "`interleaved`: chunks of blocks on every rank. The results do not change.", 1),
      field<&L::cut>("pipeline_cut", {}, "First block of every stage (of every chunk) but the first."),
      field<&L::exchange>(
          "exchange", {},
          "Exchange of gradients and parameters between data ranks on several hosts. `flat`: between "
          "all ranks at once. `hierarchical`: sums inside each host first, and gathers over the "
          "hosts first, so that one copy leaves and enters a host instead of one per rank. It requires the "
          "same number of data ranks on every host, with consecutive ranks. With "
          "`reduction` = canonical, the number of micro-batches that a host sums must be a power of two. "
          "Otherwise the exchange is flat, and the log gives the reason. `auto`: hierarchical if possible "
          "and `reduction` = canonical. The results do not change, except with `reduction` = fast."),
  };
}

OpenFields fields_chosen_by(std::initializer_list<ChosenBy> choosers) {
  OpenFields names;
  for (const LayoutField& row : layout_fields()) {
    if (std::ranges::find(choosers, row.chosen_by) != choosers.end()) names.emplace(row.name);
  }
  return names;
}

struct AsText {
  std::string operator()(const std::string& word) const { return word; }
  std::string operator()(const std::vector<int>& blocks) const {
    return fmt::format("{}", fmt::join(blocks, ", "));
  }
  std::string operator()(auto value) const { return fmt::format("{}", value); }
};

}  // namespace

std::string_view name(PipelineSchedule schedule) {
  constexpr std::string_view kNames[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
  return kNames[static_cast<std::size_t>(schedule)];
}

std::string_view name(Exchange exchange) {
  constexpr std::string_view kNames[] = {"auto", "flat", "hierarchical"};
  return kNames[static_cast<std::size_t>(exchange)];
}

std::string to_text(const LayoutValue& value) {
  return std::visit(AsText(), value);
}

std::span<const LayoutField> layout_fields() {
  static const std::vector<LayoutField> fields = make_fields();
  return fields;
}

const LayoutField& layout_field(std::string_view name) {
  const auto fields = layout_fields();
  const auto found = std::ranges::find(fields, name, &LayoutField::name);
  TRIREME_CHECK(found != fields.end(), "a layout has no field \"{}\"", name);
  return *found;
}

OpenFields searched_fields() {
  return fields_chosen_by({ChosenBy::kSearch, ChosenBy::kMemory});
}

OpenFields fields_by_memory() {
  return fields_chosen_by({ChosenBy::kMemory});
}

Layout without(Layout layout, const OpenFields& open) {
  for (const std::string& name : open) layout_field(name).set(layout, layout_field(name).get({}));
  return layout;
}

std::string to_text(const Layout& layout) {
  std::vector<std::string> parts;
  for (const LayoutField& row : layout_fields()) {
    const LayoutValue value = row.get(layout);
    if (value != row.get({})) parts.push_back(fmt::format("{} = {}", row.name, to_text(value)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string recompute_text(const Layout& layout) {
  if (layout.recompute_every > 0) return fmt::format("every {}", layout.recompute_every);
  return layout.recompute == Recompute::kNone ? "-" : std::string(name(layout.recompute));
}

std::string schedule_text(const Layout& layout) {
  if (layout.pipeline == 1) return "-";
  const std::string word(name(layout.schedule));
  return layout.chunks > 1 ? fmt::format("{} x {}", word, layout.chunks) : word;
}

}  // namespace trireme
