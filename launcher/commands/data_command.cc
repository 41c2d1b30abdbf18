// trireme data text INPUT... --out DIR [--tokenizer bytes|MODEL] [--train-tokenizer N] [--eval-fraction F]
//     [--as-text]
// trireme data documents FILE... --out DIR [--tokenizer bytes|MODEL] [--unlabelled] [--eval-fraction F]
//     [--as-text]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/host/standard_output.h"
#include "launcher/render/text_table.h"
#include "launcher/report/progress_lines.h"
#include "runtime/base/allocator.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/data/prepare_documents.h"
#include "runtime/data/prepare_text.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/text_sources.h"

namespace trireme {
namespace {

struct TextArguments {
  std::vector<std::string> inputs;
  std::string out;
  std::string tokenizer = "bytes";
  std::int64_t train_vocab = 0;
  double eval_fraction = 0.1;
  bool as_text = false;
};

constexpr const char* kAsTextHelp = "Read JSON files as plain text, including braces and keys";

/// Trains a tokenizer on the inputs. Returns the path of its model in the output folder.
std::string train_tokenizer(const TextArguments& arguments, const PrepareTextOptions& options) {
  const TextSources sources =
      find_text({.inputs = options.inputs, .exclude = options.output, .json_as_text = options.json_as_text});
  check_found(sources, options.inputs, /*lines=*/false);
  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  TRIREME_CHECK(!error, "cannot make the output folder {}: {}", arguments.out, error.message());
  const auto model = options.output / "tokenizer.model";
  log_info(fmt::format("training a vocabulary of {} tokens on {}", arguments.train_vocab,
                       format_bytes(sources.bytes)));
  train_sentencepiece(sources.files, model, {.vocab_size = arguments.train_vocab});
  return model.string();
}

void print_summary(const PrepareTextSummary& summary, const std::string& out) {
  const DatasetInfo& info = summary.info;
  print_line(fmt::format("{}: {} training and {} evaluation tokens, vocabulary {} ({}), from {} files, {}",
                         out, info.train_tokens, info.eval_tokens, info.vocab_size, info.tokenizer,
                         info.source_files, format_bytes(info.source_bytes)));
  for (const std::string& note : describe(summary.notes, /*lines=*/false)) log_warning(note);
  if (!summary.lossless) {
    log_warning(
        "the tokenizer does not give the text back unchanged: its model normalises, line ends perhaps");
  }
}

struct DocumentsArguments {
  std::vector<std::string> inputs;
  std::string out;
  std::string tokenizer = "bytes";
  bool unlabelled = false;
  double eval_fraction = 0.1;
  bool as_text = false;
};

ExitCode run_data_documents(const DocumentsArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme data` runs alone: leave out mpirun");
  const auto [info, notes] = prepare_documents({.inputs = {arguments.inputs.begin(), arguments.inputs.end()},
                                                .output = arguments.out,
                                                .tokenizer = arguments.tokenizer,
                                                .labelled = !arguments.unlabelled,
                                                .eval_fraction = arguments.eval_fraction,
                                                .json_as_text = arguments.as_text},
                                               [lines = share_lines()](std::int64_t done, std::int64_t all) {
                                                 lines(plural(all, "document"),
                                                       static_cast<double>(done) / static_cast<double>(all));
                                               });
  for (const std::string& note : describe(notes, /*lines=*/true)) log_warning(note);
  print_line(fmt::format(
      "{}: {} training and {} evaluation documents of {} and {} tokens, {} classes, vocabulary {} ({})",
      arguments.out, info.train_documents, info.eval_documents, info.train_tokens, info.eval_tokens,
      info.classes.size(), info.vocab_size, info.tokenizer));
  return ExitCode::kDone;
}

void add_documents_command(CLI::App& data, Command& chosen) {
  auto arguments = std::make_shared<DocumentsArguments>();
  CLI::App* command =
      data.add_subcommand("documents", "Convert lines of text with labels to documents for BERT");
  command
      ->add_option("FILE", arguments->inputs,
                   "Files, or folders of files, with lines \"label TAB text\" or \"label TAB text TAB second "
                   "text\", in UTF-8")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "Folder for train.bin, train.documents, eval.bin, eval.documents and dataset.json")
      ->required();
  command->add_option("--tokenizer", arguments->tokenizer, "As in `trireme data text` (default: bytes)");
  command->add_flag("--unlabelled", arguments->unlabelled, "The lines have no labels, only text");
  command->add_option("--eval-fraction", arguments->eval_fraction,
                      "Fraction of the documents, spread evenly, for evaluation (default: 0.1)");
  command->add_flag("--as-text", arguments->as_text, kAsTextHelp);
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_data_documents(*arguments, launch); };
  });
}

ExitCode run_data_text(const TextArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme data` runs alone: leave out mpirun");
  PrepareTextOptions options{.inputs = {arguments.inputs.begin(), arguments.inputs.end()},
                             .output = arguments.out,
                             .tokenizer = arguments.tokenizer,
                             .eval_fraction = arguments.eval_fraction,
                             .json_as_text = arguments.as_text};
  if (arguments.train_vocab > 0) options.tokenizer = train_tokenizer(arguments, options);
  const bool terminal = output_is_terminal(launch);
  const TellShare lines = share_lines();
  const PrepareTextSummary summary = prepare_text(options, [&](const PrepareTextProgress& state) {
    const std::string text = fmt::format("{} of {}, {} tokens", format_bytes(state.bytes_done),
                                         format_bytes(state.bytes_total), state.num_tokens);
    if (terminal) return refresh_line(text + " ");
    lines(text, static_cast<double>(state.bytes_done) / static_cast<double>(state.bytes_total));
  });
  if (terminal) print_line("");
  print_summary(summary, arguments.out);
  return ExitCode::kDone;
}

}  // namespace

void add_data_command(CLI::App& app, Command& chosen) {
  CLI::App* data = app.add_subcommand("data", "Prepare data for training");
  data->require_subcommand(1);
  add_documents_command(*data, chosen);
  add_data_chat_command(*data, chosen);
  auto arguments = std::make_shared<TextArguments>();
  CLI::App* text = data->add_subcommand("text", "Convert files and folders of text to token shards");
  text->add_option("INPUT", arguments->inputs, "Files and folders of text in UTF-8")->required();
  text->add_option("--out", arguments->out, "Folder for train.bin, eval.bin and dataset.json")->required();
  auto* tokenizer = text->add_option(
      "--tokenizer", arguments->tokenizer,
      "\"bytes\", a sentencepiece model, byte-level BPE (tokenizer.json), or a folder with tokenizer.json, "
      "tokenizer.model, or vocab.json and merges.txt (default: bytes)");
  text->add_option("--train-tokenizer", arguments->train_vocab,
                   "First train a byte-pair vocabulary of this size on the inputs, then use it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}))
      ->excludes(tokenizer);
  text->add_option("--eval-fraction", arguments->eval_fraction,
                   "Fraction of the tokens, from the end, for evaluation (default: 0.1)");
  text->add_flag("--as-text", arguments->as_text, kAsTextHelp);
  text->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_data_text(*arguments, launch); };
  });
}

}  // namespace trireme
