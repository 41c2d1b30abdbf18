#include "runtime/data/prepare_documents.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/class_names.h"
#include "runtime/data/prepared_folder.h"
#include "runtime/data/text_reader.h"

namespace trireme {
namespace {

struct Line {
  std::string_view label, first, second;
  std::size_t file = 0;
  std::int64_t number = 0;  // in the file, from 1
};

/// Removes and returns `text` up to `end`; also removes `end`.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

/// Removes and returns one line of `text`, ended by LF, CRLF or CR; also removes the line end.
std::string_view take_line(std::string_view& text) {
  const std::size_t at = std::min(text.find_first_of("\r\n"), text.size());
  std::string_view line = text.substr(0, at);
  text.remove_prefix(at);
  text.remove_prefix(text.starts_with("\r\n") ? 2 : text.empty() ? 0 : 1);
  while (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return line;
}

std::vector<Line> lines_of(std::string_view text, bool labelled, const std::filesystem::path& path) {
  std::vector<Line> lines;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    std::string_view rest = take_line(text);
    if (rest.empty()) continue;
    Line line{.number = number};
    if (labelled) line.label = take_until(rest, '\t');
    line.first = take_until(rest, '\t');
    line.second = take_until(rest, '\t');
    TRIREME_CHECK((!labelled || !line.label.empty()) && !line.first.empty() && rest.empty(),
                  "{}:{}: a line must be {}text, optionally followed by a tab and a second text",
                  path.string(), number, labelled ? "a label, a tab and a " : "");
    lines.push_back(line);
  }
  return lines;
}

/// Numbers the labels in byte order.
std::map<std::string_view, std::int32_t> number_labels(const std::vector<Line>& lines) {
  std::map<std::string_view, std::int32_t> numbers;
  for (const Line& line : lines) numbers.emplace(line.label, 0);
  std::int32_t next = 0;
  for (auto& [label, number] : numbers) number = next++;
  return numbers;
}

/// Errors of the tokenizer name the line.
std::vector<std::int32_t> encode(std::string_view text, const Tokenizer& tokenizer, const Line& line,
                                 const std::filesystem::path& path) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    throw Error(error.code(), "{}:{}: {}", path.string(), line.number, error.what());
  }
}

Document append(const Line& line, const Tokenizer& tokenizer, const std::filesystem::path& path,
                TokenFileWriter& tokens) {
  const std::vector<std::int32_t> first = encode(line.first, tokenizer, line, path),
                                  second = encode(line.second, tokenizer, line, path);
  tokens.append(first);
  tokens.append(second);
  return {.num_tokens = static_cast<std::int32_t>(first.size() + second.size()),
          .first_segment = static_cast<std::int32_t>(first.size())};
}

}  // namespace

PrepareDocumentsSummary prepare_documents(
    const PrepareDocumentsOptions& options,
    const std::function<void(std::int64_t done, std::int64_t all)>& progress) {
  TRIREME_CHECK(!options.inputs.empty(), "no input was given");
  TRIREME_CHECK(options.eval_fraction >= 0.0 && options.eval_fraction < 1.0,
                "the evaluation fraction must be at least 0 and below 1, not {}", options.eval_fraction);
  const auto tokenizer = load_tokenizer(options.tokenizer);
  DatasetInfo info{.tokenizer = std::string(tokenizer->kind()), .vocab_size = tokenizer->vocab_size()};
  const TextSources sources = find_text({.inputs = options.inputs,
                                         .exclude = options.output,
                                         .json_as_text = options.json_as_text,
                                         .labelled = options.labelled});
  check_found(sources, options.inputs, /*lines=*/true);
  std::vector<TextReader> files;
  std::vector<Line> lines;
  for (const std::filesystem::path& source : sources.files) {
    check_not_overwritten(source, options.output);
    std::vector<Line> more = lines_of(files.emplace_back(source).text(), options.labelled, source);
    for (Line& line : more) line.file = files.size() - 1;
    lines.insert(lines.end(), more.begin(), more.end());
  }
  info.source_bytes = sources.bytes;
  info.source_files = static_cast<std::int64_t>(sources.files.size());
  info.skipped_binary_files = sources.notes.num_left_out(TextFlaw::kBinary);
  TRIREME_CHECK(!lines.empty(), "there is no text in {} input(s), the first of which is {}",
                options.inputs.size(), options.inputs.front().string());
  const std::map<std::string_view, std::int32_t> labels = number_labels(lines);
  TRIREME_CHECK(!options.labelled || labels.size() >= 2,
                "all {} documents have the label '{:.200}': two or more classes are needed", lines.size(),
                lines[0].label);

  PreparedFolder results(options.output, TokenLayout::of_vocab(tokenizer->vocab_size()));
  std::vector<Document> train, eval;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (progress && i > 0 && i % 1024 == 0) {
      progress(static_cast<std::int64_t>(i), static_cast<std::int64_t>(lines.size()));
    }
    const bool held_back = is_for_evaluation(i, options.eval_fraction);
    Document document = append(lines[i], *tokenizer, sources.files[lines[i].file],
                               held_back ? results.eval() : results.train());
    if (options.labelled) document.label = labels.at(lines[i].label);
    if (document.num_tokens > 0) (held_back ? eval : train).push_back(document);
  }
  TRIREME_CHECK(!train.empty(), "{} documents are too few to reserve a fraction of {} for evaluation",
                lines.size(), options.eval_fraction);
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
  return {.info = std::move(info), .notes = sources.notes};
}

}  // namespace trireme
