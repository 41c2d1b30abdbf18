// The result of `trireme eval`: tables and a line for people, or JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/observe/metrics.h"
#include "launcher/report/class_report.h"

namespace trireme {

/// The loss of a token in other units. Bits per byte do not depend on the tokenizer.
struct TextFigures {
  double perplexity = 0;
  std::optional<double> bits_per_byte;  // if the data records the byte count of its tokens
  bool of_marked_targets = false;       // conversations: other tokens do not count
};

/// Null for models that write no text.
std::optional<TextFigures> text_figures(const JobConfig& config, const EvalMetrics& metrics);

struct EvaluationReport {
  std::string model;      // its folder
  std::int64_t step = 0;  // of the checkpoint
  EvalMetrics metrics;
  std::int64_t num_left_out = 0;  // samples
  std::optional<TextFigures> text;
  std::optional<ClassReport> classes;
  std::vector<std::string> class_names;  // may be empty
};

/// "loss 0.2500  top-1 91.25 %  top-5 99.70 %".
std::string describe_eval(const EvalMetrics& metrics);

/// The tables by class and by size of object; empty without classes.
std::string tables_text(const EvaluationReport& report);
/// The last line: "out/job: loss 0.2500 over 100 samples".
std::string summary_line(const EvaluationReport& report);
nlohmann::ordered_json to_json(const EvaluationReport& report);

}  // namespace trireme
