// Compares the record of a checkpoint with the data, tokenizers and class names that it meets. One table
// has the rules of all meetings; every command calls compare_data().
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/train/data_module.h"
#include "launcher/train/data_record.h"

namespace trireme {

/// The commands that bring a checkpoint and data together.
enum class Meeting : std::uint8_t {
  kResume,    // `trireme train`, and each start of `trireme run`: from a folder or from a partner's copy
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
  kFollowed,             // the checkpoint decides
  kComparedWithWeights,  // where the weights are opened, with the rest of the model
  kChecksum,             // the checksums of the manifest cover the file that is used
  kWarned,
  kRefusedUnlessMeant,  // checkpoint.new_data = true says that the difference is meant
  kRefused,
};
std::string_view word_of(DataRule rule);

struct DataRuleCell {
  DataRule rule = DataRule::kNotCompared;
  std::string_view text;  // what to do about a difference; of a fact that is not compared, why
};

struct DataFactRow {
  DataFact fact;
  std::string_view name;      // "tokenizer"
  std::string_view of_other;  // "another tokenizer"
  std::array<DataRuleCell, kNumMeetings> cells;

  const DataRuleCell& at(Meeting meeting) const { return cells[static_cast<std::size_t>(meeting)]; }
};
std::span<const DataFactRow> data_fact_rows();

/// The data that a checkpoint meets, with its places for messages.
struct MetData {
  std::string checkpoint;  // its folder
  DataRecord data;         // what is not known is not compared
  std::string train, eval, tokenizer, classes;
  bool new_data = false;       // checkpoint.new_data
  bool lacks_classes = false;  // it may have the first of the checkpoint's classes alone
};

/// The data of a job that trains, or that only evaluates. An empty `checkpoint`: none is met.
MetData met_by_training(const JobConfig& config, const JobData& data, const std::string& checkpoint);
MetData met_by_evaluation(const JobConfig& config, const JobData& data, const std::string& checkpoint);

struct DataChanges {
  std::vector<std::string> warnings;
  bool training_data = false;  // is other data than the checkpoint's
};

/// Throws Error(kInvalidInput) for the first difference that the rules refuse, in the order of the table:
/// other class names or tokenizers make other data. The message names both values, both places and what to
/// do.
DataChanges compare_data(Meeting meeting, const DataRecord& saved, const MetData& met);

/// A line for a checkpoint of a build that saved no fingerprint; empty for others.
std::string describe_unknown_data(const DataRecord& saved, const std::string& checkpoint);

}  // namespace trireme
