// The layout of a job over its ranks (work and state): one value, and one table of its fields.
//
// A layout never changes a bit of the results. Engine options, the job file, the search, plans, summaries and
// metrics hold a Layout; code that reads, prints or compares one loops over layout_fields(). The micro-batch
// is not a field, because another micro-batch rounds sums differently: it belongs to the mathematics.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parallel/layout/sharding.h"
#include "runtime/tape.h"

namespace trireme {

/// Pipeline bubble of a rank, and micro-batches alive on stage s, for p stages, m micro-batches, and equal
/// stages with forward time F and backward time B + W (input and weight gradients), without communication
/// time:
enum class PipelineSchedule : std::uint8_t {
  kGpipe,                  // (p-1)(F+B+W), m alive: all forwards, then all backwards
  kOneForwardOneBackward,  // (p-1)(F+B+W), min(p-s, m) alive
  kInterleaved,            // (p-1)(F+B+W)/v with v chunks a rank; more alive, and v times the messages
  kZeroBubbleH1,           // (p-1)(F+B-W) for W <= F, B and m >= p; min(p, m) alive on every stage
};
/// "gpipe", "1f1b", "interleaved", "zb-h1".
std::string_view name(PipelineSchedule schedule);

/// Levels of the exchanges between data ranks: [Note: two levels] in data_axis.h.
enum class Exchange : std::uint8_t {
  kAuto,          // two levels if possible and the sum is canonical: minimises the bytes that a host sends
  kFlat,          // one level
  kHierarchical,  // two levels if possible; else ExchangeChoice::why_flat gives the reason
};
/// "auto", "flat", "hierarchical".
std::string_view name(Exchange exchange);

struct Layout {
  int tensor = 1;         // ranks that share the tensor chunks of every block: [Note: tensor chunks]
  bool sequence = false;  // these ranks also share the rows of the residual stream: [Note: sequence shards]
  int pipeline = 1;       // stages
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;  // no effect with one stage
  int chunks = 1;        // per stage; more than one requires kInterleaved
  std::vector<int> cut;  // first block of every chunk but the first; empty: cut_by_work()
  ZeroStage zero = ZeroStage::kNone;
  bool accumulate_unsharded = false;  // ZeRO-2 and 3: reduce gradients once a step, from whole buffers
  bool keep_gathered = false;  // ZeRO-3: gather parameters once a step (FSDP: reshard_after_forward = false)
  int prefetch_depth = 1;      // ZeRO-3: number of runs of blocks gathered ahead
  std::int64_t group_min_bytes = 0;  // neighbouring blocks with fewer parameters share one ParamGroup
  int recompute_every = 0;           // keep only the input of every segment of k blocks; 0: keep everything
  Recompute recompute = Recompute::kNone;  // of every block, in addition to recompute_every
  Exchange exchange = Exchange::kAuto;     // between data ranks that span hosts

  bool operator==(const Layout&) const = default;

  /// Ranks that share every sample.
  int model_ranks() const { return tensor * pipeline; }
  int data_ranks(int num_ranks) const { return num_ranks / model_ranks(); }
  /// The same layout with one stage.
  Layout unstaged() const {
    Layout one = *this;
    one.pipeline = one.chunks = 1;
    one.schedule = PipelineSchedule::kOneForwardOneBackward;
    one.cut.clear();
    return one;
  }
  bool recomputes_segments() const { return recompute_every > 0; }
  /// ZeRO-2 and 3: gradients are reduced after each micro-batch.
  bool reduces_each_micro_batch() const { return sharded_by(zero).gradients && !accumulate_unsharded; }
  /// True if this layout keeps everything over the micro-batches of a step that `other` keeps.
  bool keeps_all_of(const Layout& other) const {
    return keep_gathered >= other.keep_gathered && accumulate_unsharded >= other.accumulate_unsharded;
  }
  /// ZeRO-3: working copies stay gathered over all micro-batches of a step.
  bool keeps_parameters() const { return sharded_by(zero).parameters && keep_gathered; }
};

/// The value of a field: a flag, a number, a word, or a list of blocks.
using LayoutValue = std::variant<bool, std::int64_t, std::string, std::vector<int>>;

/// "true", "2", "1f1b", "3, 6".
std::string to_text(const LayoutValue& value);

/// Chooses a field that the job leaves open.
enum class ChosenBy : std::uint8_t {
  kNobody,  // the default applies
  kSearch,  // the layout search
  kMemory,  // the search; without a search, the value that communicates least and fits into memory
};

struct LayoutField {
  std::string_view name;
  LayoutValue (*get)(const Layout&);
  void (*set)(Layout&, const LayoutValue&);  // the value must have the alternative that `get` returns
  std::int64_t least = 0, most = 0;          // for numbers
  std::vector<std::string_view> words;       // for words
  ChosenBy chosen_by = ChosenBy::kNobody;
  std::string_view no_eval;  // why an evaluation, without backward pass, refuses it; empty: accepted
  std::string_view doc;
};

/// In the order in which they are printed.
std::span<const LayoutField> layout_fields();
/// Throws Error(kInvalidInput) for an unknown name.
const LayoutField& layout_field(std::string_view name);

/// Names of fields whose values are to be chosen.
using OpenFields = std::set<std::string, std::less<>>;
OpenFields searched_fields();
/// Fields that are chosen even without a search: ChosenBy::kMemory.
OpenFields fields_by_memory();
/// `layout` with defaults in place of its open fields.
Layout without(Layout layout, const OpenFields& open);

/// "tensor = 2, zero = 1": fields that differ from their defaults; empty if none does.
std::string to_text(const Layout& layout);
/// "-", "selective", "every 2": for tables.
std::string recompute_text(const Layout& layout);
/// "-", "1f1b", "interleaved x 2": for tables.
std::string schedule_text(const Layout& layout);

}  // namespace trireme
