// Compares a checkpoint's data record with the data, tokenizer and class names that a command uses with it.
// One table holds the rules of all commands; every command calls compare_data().
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/data/data_module.h"
#include "launcher/data/data_record.h"

namespace trireme {

/// The commands that use a checkpoint with data.
enum class Meeting : std::uint8_t {
  kResume,    // `trireme train`, and each attempt of `trireme run`: from a folder or a partner's copy
  kInitFrom,  // model.init_from
  kEval,
  kSample,
  kExport,
};
inline constexpr std::size_t kNumMeetings = 5;
inline constexpr std::array<std::string_view, kNumMeetings> kMeetingNames = {
    "resume, `run`", "`init_from`", "`eval`", "`sample`", "`export`"};

enum class DataFact : std::uint8_t {
  kSamples,
  kTokenizer,
  kClassNames,
  kImageSize,
  kNormalisation,
  kTrainingData,
  kEvaluationData,
};

enum class DataRule : std::uint8_t {
  kNotCompared,
  kFollowed,             // the checkpoint's value is used
  kComparedWithWeights,  // compared when the weights are opened, with the rest of the model
  kChecksum,             // covered by the checksums in the manifest
  kWarned,
  kRefusedUnlessMeant,  // accepted with checkpoint.new_data = true
  kRefused,
};
std::string_view word_of(DataRule rule);

struct DataRuleCell {
  DataRule rule = DataRule::kNotCompared;
  std::string_view text;  // what to do about a difference; for kNotCompared, the reason
};

struct DataFactRow {
  DataFact fact;
  std::string_view name;      // "tokenizer"
  std::string_view of_other;  // "another tokenizer"
  std::array<DataRuleCell, kNumMeetings> cells;

  const DataRuleCell& at(Meeting meeting) const { return cells[static_cast<std::size_t>(meeting)]; }
};
std::span<const DataFactRow> data_fact_rows();

/// The data used with a checkpoint, and where it comes from, for messages.
struct MetData {
  std::string checkpoint;  // its folder
  DataRecord data;         // unknown values are not compared
  std::string train, eval, tokenizer, classes;
  bool new_data = false;       // checkpoint.new_data
  bool lacks_classes = false;  // the data may have only the first of the checkpoint's classes
};

/// The data of a job that trains, or that only evaluates. Without a `checkpoint`, pass "".
MetData met_by_training(const JobConfig& config, const JobData& data, const std::string& checkpoint);
MetData met_by_evaluation(const JobConfig& config, const JobData& data, const std::string& checkpoint);

struct DataChanges {
  std::vector<std::string> warnings;
  bool training_data = false;  // the training data differs from the checkpoint's
};

/// Throws Error(kInvalidInput) for the first difference that the rules refuse. The table's order matters,
/// because other class names or tokenizers also change the data. The message has both values, both places and
/// what to do.
DataChanges compare_data(Meeting meeting, const DataRecord& saved, const MetData& met);

/// A warning for a checkpoint of an older build, which saved no fingerprint; empty for others.
std::string describe_unknown_data(const DataRecord& saved, const std::string& checkpoint);

}  // namespace trireme
