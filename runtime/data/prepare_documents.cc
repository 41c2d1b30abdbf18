#include "runtime/data/prepare_documents.h"

#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/mapped_file.h"
#include "runtime/data/class_names.h"
#include "runtime/data/prepared_folder.h"

namespace trireme {
namespace {

struct Line {
  std::string_view label, first, second;
};

/// `text` up to `end`, which both are taken off `text`.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

std::vector<Line> lines_of(std::string_view text, bool labelled, const std::filesystem::path& path) {
  std::vector<Line> lines;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    std::string_view rest = take_until(text, '\n');
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    if (rest.empty()) continue;
    Line line;
    if (labelled) line.label = take_until(rest, '\t');
    line.first = take_until(rest, '\t');
    line.second = take_until(rest, '\t');
    TRIREME_CHECK((!labelled || !line.label.empty()) && !line.first.empty() && rest.empty(),
                  "{}:{}: a line is {}text, or with a second text behind another tab", path.string(), number,
                  labelled ? "a label, a tab and a " : "");
    lines.push_back(line);
  }
  return lines;
}

/// Numbers of labels in their order as bytes.
std::map<std::string_view, std::int32_t> number_labels(const std::vector<Line>& lines) {
  std::map<std::string_view, std::int32_t> numbers;
  for (const Line& line : lines) numbers.emplace(line.label, 0);
  std::int32_t next = 0;
  for (auto& [label, number] : numbers) number = next++;
  return numbers;
}

Document append(const Line& line, const Tokenizer& tokenizer, TokenFileWriter& tokens) {
  const std::vector<std::int32_t> first = tokenizer.encode(line.first),
                                  second = tokenizer.encode(line.second);
  tokens.append(first);
  tokens.append(second);
  return {.num_tokens = static_cast<std::int32_t>(first.size() + second.size()),
          .first_segment = static_cast<std::int32_t>(first.size())};
}

/// Whether document `index` is one of those for evaluation, which are spread evenly.
bool is_for_evaluation(std::size_t index, double fraction) {
  const auto i = static_cast<double>(index);
  return std::floor((i + 1) * fraction) > std::floor(i * fraction);
}

}  // namespace

DatasetInfo prepare_documents(const PrepareDocumentsOptions& options) {
  TRIREME_CHECK(!options.inputs.empty(), "no input was given");
  TRIREME_CHECK(options.eval_fraction >= 0.0 && options.eval_fraction < 1.0,
                "the evaluation fraction must be at least 0 and below 1, not {}", options.eval_fraction);
  const auto tokenizer = load_tokenizer(options.tokenizer);
  DatasetInfo info{.tokenizer = std::string(tokenizer->kind()), .vocab_size = tokenizer->vocab_size()};
  std::vector<MappedFile> files;
  std::vector<Line> lines;
  for (const std::filesystem::path& input : options.inputs) {
    check_not_overwritten(input, options.output);
    const auto bytes = files.emplace_back(input, "input").bytes();
    const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    const std::vector<Line> more = lines_of(text, options.labelled, input);
    lines.insert(lines.end(), more.begin(), more.end());
    info.source_bytes += static_cast<std::int64_t>(bytes.size());
    ++info.source_files;
  }
  TRIREME_CHECK(!lines.empty(), "there is no text in {} input(s), the first of which is {}",
                options.inputs.size(), options.inputs.front().string());
  const std::map<std::string_view, std::int32_t> labels = number_labels(lines);
  TRIREME_CHECK(!options.labelled || labels.size() >= 2,
                "all {} documents have the label '{}': classes are two or more", lines.size(),
                lines[0].label);

  PreparedFolder results(options.output, TokenLayout::of_vocab(tokenizer->vocab_size()));
  std::vector<Document> train, eval;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool held_back = is_for_evaluation(i, options.eval_fraction);
    Document document = append(lines[i], *tokenizer, held_back ? results.eval() : results.train());
    if (options.labelled) document.label = labels.at(lines[i].label);
    if (document.num_tokens > 0) (held_back ? eval : train).push_back(document);
  }
  TRIREME_CHECK(!train.empty(), "{} documents are too few to keep {} of them for evaluation", lines.size(),
                options.eval_fraction);
  if (options.labelled) {
    for (const auto& [label, number] : labels) info.classes.emplace_back(label);
    info.classes = as_utf8(info.classes);
  }
  info.train_documents = static_cast<std::int64_t>(train.size());
  info.eval_documents = static_cast<std::int64_t>(eval.size());
  info.train_tokens = results.train().num_tokens();
  info.eval_tokens = results.num_eval_tokens();
  results.save_model(*tokenizer);
  info.tokenizer_model = std::string(results.model_name());
  results.set_documents(std::move(train), std::move(eval));
  results.commit(info);
  return info;
}

}  // namespace trireme
