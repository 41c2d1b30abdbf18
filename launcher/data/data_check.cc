#include "launcher/data/data_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "launcher/data/image_data.h"
#include "launcher/data/token_data.h"
#include "runtime/base/error.h"
#include "runtime/data/class_names.h"

namespace trireme {
namespace {

constexpr DataRuleCell no(std::string_view why) {
  return {DataRule::kNotCompared, why};
}
constexpr DataRuleCell refused(std::string_view remedy) {
  return {DataRule::kRefused, remedy};
}
constexpr DataRuleCell unless_meant(std::string_view remedy) {
  return {DataRule::kRefusedUnlessMeant, remedy};
}

constexpr std::string_view kNoData = "it reads no data", kNoClasses = "it writes text, which has no classes",
                           kNoPictures = "it reads no pictures", kSetMeansIt = "only `--set` makes it differ";

constexpr DataFactRow kRows[] = {
    {DataFact::kSamples,
     "samples consumed",
     "",
     {DataRuleCell{DataRule::kFollowed, "reading goes on there, whatever the batch"},
      no("a new run begins at the first sample"), no("an evaluation begins at the first sample"), no(kNoData),
      no(kNoData)}},
    {DataFact::kTokenizer,
     "tokenizer",
     "another tokenizer",
     {unless_meant(
          "Prepare the data with the tokenizer beside the checkpoint, or set checkpoint.new_data = true "
          "where the other one is meant"),
      unless_meant("Prepare the data with the tokenizer that the weights were trained with, or set "
                   "checkpoint.new_data = true "
                   "where the other one is meant"),
      refused("Prepare the data with the tokenizer beside the checkpoint: `trireme data text --tokenizer`"),
      refused("Leave --tokenizer out, or give the one beside the checkpoint"),
      DataRuleCell{DataRule::kChecksum, "it writes the file beside the checkpoint"}}},
    {DataFact::kClassNames,
     "class names",
     "other classes",
     {refused("Labels of the run that goes on would mean other classes: restore the classes, or begin "
              "anew, in another --out or with checkpoint.resume = \"never\""),
      DataRuleCell{DataRule::kComparedWithWeights, "with the head of the model"},
      refused("The model knows its own classes: choose data with the same classes, in the same order"),
      no(kNoClasses), no("it writes those of the checkpoint")}},
    {DataFact::kImageSize,
     "image size",
     "another view of pictures",
     {unless_meant(
          "Set data.image_size and data.center back, or set checkpoint.new_data = true where the other "
          "view is meant"),
      no("training goes on at other sizes; where the model has positions, its shapes are compared"),
      DataRuleCell{DataRule::kWarned, kSetMeansIt}, no(kNoPictures), no(kNoPictures)}},
    {DataFact::kNormalisation,
     "normalisation",
     "another normalisation of pictures",
     {unless_meant("Set data.mean and data.std back, or set checkpoint.new_data = true where the other ones "
                   "are meant"),
      unless_meant("Set data.mean and data.std to those of the weights, or set checkpoint.new_data = true "
                   "where the other ones are meant"),
      DataRuleCell{DataRule::kWarned, kSetMeansIt}, no(kNoPictures), no(kNoPictures)}},
    {DataFact::kTrainingData,
     "training data",
     "other training data",
     {unless_meant(
          "Bring the data back, choose another --out, or set checkpoint.new_data = true to go on with "
          "the new data from its beginning"),
      no("other data is what it is for"), no("it reads none"), no(kNoData), no(kNoData)}},
    {DataFact::kEvaluationData,
     "evaluation data",
     "other evaluation data",
     {unless_meant(
          "Bring the data back, choose another --out, or set checkpoint.new_data = true to evaluate on "
          "the new data"),
      no("a new run has its own"), refused("Bring the data back, or name with --data what to evaluate on"),
      no(kNoData), no(kNoData)}},
};

/// Two differing values, and the place of the second one.
struct Difference {
  std::string saved, met, place;
  bool is_repair = false;   // files were repaired; samples and their order are the same
  std::string remedy = {};  // replaces the rule's remedy; empty: keep that
};

std::string text_of_training(const DataRecord& record) {
  return record.pass_samples > 0
             ? fmt::format("{}, {} samples a pass", to_string(*record.train), record.pass_samples)
             : to_string(*record.train);
}

/// For unchanged files: keys of the job changed how samples are cut from them.
void describe_changed_keys(const DataRecord& saved, const MetData& met, Difference& difference) {
  if (!saved.rows || !met.data.rows) return;
  std::vector<std::string> before, now;
  const auto add = [&](const char* key, const auto& was, const auto& is) {
    if (was == is) return;
    before.push_back(fmt::format("{} = {}", key, was));
    now.push_back(fmt::format("{} = {}", key, is));
  };
  add("model.seq_len", saved.rows->seq_len, met.data.rows->seq_len);
  add("data.pack", saved.rows->pack, met.data.rows->pack);
  add("data.too_long", to_word(saved.rows->too_long), to_word(met.data.rows->too_long));
  if (before.empty()) return;
  difference.saved += fmt::format(" with {}", fmt::join(before, " and "));
  difference.met += fmt::format(" with {}", fmt::join(now, " and "));
  difference.remedy = fmt::format(
      "The files are the same: set {} back, choose another --out, or set checkpoint.new_data = true to go on "
      "with the other samples from their beginning",
      fmt::join(before, " and "));
}

std::optional<Difference> compare_training(const DataRecord& saved, const MetData& met) {
  if (!saved.train || !met.data.train) return std::nullopt;
  const bool knows_pass = saved.pass_samples > 0 && met.data.pass_samples > 0;
  const bool is_same_pass = !knows_pass || saved.pass_samples == met.data.pass_samples;
  // Conversations cut at the other end give other samples, and as many.
  const bool cuts_alike = !saved.rows || !met.data.rows || saved.rows->too_long == met.data.rows->too_long;
  if (*saved.train == *met.data.train && is_same_pass && cuts_alike) return std::nullopt;
  Difference difference{text_of_training(saved), text_of_training(met.data), met.train,
                        is_same_pass && met.data.train->has_names_of(*saved.train)};
  if (*saved.train == *met.data.train) describe_changed_keys(saved, met, difference);
  return difference;
}

std::optional<Difference> compare_evaluation(const DataRecord& saved, const MetData& met) {
  if (!saved.eval || !met.data.eval || *saved.eval == *met.data.eval) return std::nullopt;
  return Difference{to_string(*saved.eval), to_string(*met.data.eval), met.eval,
                    met.data.eval->has_names_of(*saved.eval)};
}

std::optional<Difference> compare_tokenizers(const DataRecord& saved, const MetData& met) {
  if (is_same(saved.tokenizer, met.data.tokenizer)) return std::nullopt;
  return Difference{to_string(saved.tokenizer), to_string(met.data.tokenizer), met.tokenizer};
}

std::optional<Difference> compare_sizes(const DataRecord& saved, const MetData& met) {
  const auto &a = saved.images, &b = met.data.images;
  if (!a || !b || (a->size == b->size && a->center == b->center)) return std::nullopt;
  const auto text = [](const ImageRecord& images) {
    return fmt::format("data.image_size = {}, data.center = {}", images.size, images.center);
  };
  return Difference{text(*a), text(*b), "the job"};
}

/// Other programs may round these numbers; pixels are fp32.
bool are_near(const std::array<double, 3>& a, const std::array<double, 3>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) < 1e-6; });
}

std::optional<Difference> compare_normalisations(const DataRecord& saved, const MetData& met) {
  const auto &a = saved.images, &b = met.data.images;
  if (!a || !b || (are_near(a->mean, b->mean) && are_near(a->stddev, b->stddev))) return std::nullopt;
  const auto text = [](const ImageRecord& images) {
    return fmt::format("data.mean = [{}], data.std = [{}]", fmt::join(images.mean, ", "),
                       fmt::join(images.stddev, ", "));
  };
  return Difference{text(*a), text(*b), "the job"};
}

std::optional<Difference> compare_fact(DataFact fact, const DataRecord& saved, const MetData& met) {
  switch (fact) {
    case DataFact::kTrainingData:
      return compare_training(saved, met);
    case DataFact::kEvaluationData:
      return compare_evaluation(saved, met);
    case DataFact::kTokenizer:
      return compare_tokenizers(saved, met);
    case DataFact::kImageSize:
      return compare_sizes(saved, met);
    case DataFact::kNormalisation:
      return compare_normalisations(saved, met);
    case DataFact::kSamples:
    case DataFact::kClassNames:
      return std::nullopt;  // accepted here; check_same_classes() names the first difference
  }
  return std::nullopt;
}

TokenizerRecord tokenizer_at(const JobConfig& config, const std::string& path) {
  const auto prepared = has_token_files(config.data.kind) ? find_prepared_data(path) : std::nullopt;
  return prepared ? tokenizer_of(*prepared) : TokenizerRecord{};
}

/// Synthetic data is fully determined by the job, unless the program provided other samples in its place.
std::optional<DataFingerprint> synthetic_or(const JobConfig& config,
                                            const std::optional<DataFingerprint>& fingerprint) {
  if (config.data.kind == DataKind::kSynthetic && !fingerprint)
    return DataFingerprint{.contents = "synthetic samples"};
  return fingerprint;
}

std::string place_of(const char* key, const JobConfig& config, const std::string& path) {
  if (config.data.kind == DataKind::kSynthetic) return "data.kind = \"synthetic\"";
  return fmt::format("{} = \"{}\"", key, path);
}

}  // namespace

std::string_view word_of(DataRule rule) {
  switch (rule) {
    case DataRule::kNotCompared:
      return "no";
    case DataRule::kFollowed:
      return "followed";
    case DataRule::kComparedWithWeights:
      return "with weights";
    case DataRule::kChecksum:
      return "checksum";
    case DataRule::kWarned:
      return "warning";
    case DataRule::kRefusedUnlessMeant:
      return "refused, or key";
    case DataRule::kRefused:
      return "refused";
  }
  return "";
}

std::span<const DataFactRow> data_fact_rows() {
  return kRows;
}

MetData met_by_training(const JobConfig& config, const JobData& data, const std::string& checkpoint) {
  ClassNames classes = classes_of_training(config, data);
  if (classes.names.empty()) classes = classes_of_evaluation(config, data);
  MetData met{.checkpoint = checkpoint,
              .data = {.pass_samples = data.train->num_samples(),
                       .train = synthetic_or(config, data.train_fingerprint),
                       .tokenizer = tokenizer_at(config, config.data.train),
                       .class_names = classes.names,
                       .images = image_record(config.data),
                       .rows = row_record(config)},
              .train = place_of("data.train", config, config.data.train),
              .eval = place_of("data.eval", config, config.data.eval),
              .tokenizer = place_of("data.train", config, config.data.train),
              .classes = classes.where,
              .new_data = config.checkpoint.new_data,
              .lacks_classes = may_lack_classes(config)};
  if (data.eval) met.data.eval = synthetic_or(config, data.eval_fingerprint);
  return met;
}

MetData met_by_evaluation(const JobConfig& config, const JobData& data, const std::string& checkpoint) {
  ClassNames classes = classes_of_evaluation(config, data);
  return {.checkpoint = checkpoint,
          .data = {.eval = synthetic_or(config, data.eval_fingerprint),
                   .tokenizer = tokenizer_at(config, config.data.eval),
                   .class_names = classes.names,
                   .images = image_record(config.data)},
          .eval = place_of("data.eval", config, config.data.eval),
          .tokenizer = fmt::format("\"{}\"", config.data.eval),
          .classes = classes.where,
          .lacks_classes = may_lack_classes(config)};
}

DataChanges compare_data(Meeting meeting, const DataRecord& saved, const MetData& met) {
  DataChanges changes;
  for (const DataFactRow& row : kRows) {
    const auto& [rule, remedy] = row.at(meeting);
    const bool is_refused =
        rule == DataRule::kRefused || (rule == DataRule::kRefusedUnlessMeant && !met.new_data);
    if (!is_refused && rule != DataRule::kRefusedUnlessMeant && rule != DataRule::kWarned) continue;
    if (row.fact == DataFact::kClassNames) {
      const ClassNames known{met.checkpoint, saved.class_names}, data{met.classes, met.data.class_names};
      check_same_classes(met.lacks_classes ? first_classes(known, data) : known, data, std::string(remedy));
    }
    const auto found = compare_fact(row.fact, saved, met);
    if (!found) continue;
    const std::string text = fmt::format("{} was made with {}: {}, and {} has {}", met.checkpoint,
                                         row.of_other, found->saved, found->place, found->met);
    if (found->is_repair) {
      changes.warnings.push_back(text + "; the names of the files are the same, and so is their order");
      continue;
    }
    if (is_refused) {
      throw Error(ErrorCode::kInvalidInput, "{}. {}", text,
                  found->remedy.empty() ? remedy : std::string_view(found->remedy));
    }
    changes.warnings.push_back(text + (met.new_data ? " (checkpoint.new_data = true)" : ""));
    if (row.fact == DataFact::kTrainingData) changes.training_data = true;
  }
  return changes;
}

std::string describe_unknown_data(const DataRecord& saved, const std::string& checkpoint) {
  if (!saved.is_of_older_build()) return "";
  return fmt::format(
      "{} is of an earlier build, which saved no fingerprint of its data: whether the data is the same is "
      "not "
      "known",
      checkpoint);
}

}  // namespace trireme
