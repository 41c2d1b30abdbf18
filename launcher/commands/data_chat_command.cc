// trireme data chat FILE... --tokenizer DIR --out DIR [--targets assistant|last|all] [--show N]
//     [--eval-fraction F]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/commands/chat_renderer.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/number_range.h"
#include "launcher/host/standard_output.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/data/prepare_chat.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

struct ChatArguments {
  std::vector<std::string> inputs;
  std::string out, tokenizer;
  std::string targets = "assistant";
  double eval_fraction = 0.1;
  std::int64_t show = 0;
};

/// Warns of a date in the texts, and of texts in the template that look like special tokens but are not.
void warn_of_template(const ChatRenderer::Header& header, const std::string& folder) {
  if (header.writes_date) {
    log_warning(
        fmt::format("the chat template of {} may write the date of today into conversations: another "
                    "day gives other tokens",
                    folder));
  }
  const auto tokenizer = load_tokenizer(folder);
  check_prefixes(header, folder, *tokenizer);
  for (const std::string& literal : header.literals) {
    if (const std::size_t count = tokenizer->encode_chat(literal).size(); count > 1) {
      log_warning(
          fmt::format("the chat template of {} writes {}, which is {} tokens of text in the vocabulary",
                      folder, literal, count));
    }
  }
}

void print_chat(std::span<const ChatRun> runs, bool is_terminal) {
  for (const ChatRun& run : runs) {
    if (run.is_target) {
      print_emphasised(run.text, is_terminal);
    } else {
      print_text(run.text);
    }
  }
  print_line("");
}

ExitCode run_data_chat(const ChatArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme data` runs alone: leave out mpirun");
  const std::vector<std::filesystem::path> inputs(arguments.inputs.begin(), arguments.inputs.end());
  TextSources sources = find_text({.inputs = inputs, .exclude = arguments.out, .json_as_text = true});
  check_found(sources, inputs, /*lines=*/true);
  ChatRenderer renderer({.chat_template = {.folder = arguments.tokenizer, .contents = {}},
                         .files = sources.files,
                         .targets = arguments.targets});
  warn_of_template(renderer.header(), arguments.tokenizer);
  PrepareChatOptions options{.sources = std::move(sources),
                             .output = arguments.out,
                             .tokenizer = arguments.tokenizer,
                             .special_tokens = renderer.header().special_tokens,
                             .eval_fraction = arguments.eval_fraction,
                             .num_shown = arguments.show};
  options.next = [&] { return renderer.next(); };
  options.show = [is_terminal = output_is_terminal(launch)](std::span<const ChatRun> runs) {
    print_chat(runs, is_terminal);
  };
  const PrepareChatSummary summary = prepare_chat(options);
  const DatasetInfo& info = summary.info;
  const std::int64_t tokens = info.train_tokens + info.eval_tokens;
  print_line(fmt::format(
      "{}: {} training and {} evaluation conversations of {} and {} tokens, {} of them targets ({:.1f} %), "
      "the longest of {} tokens, vocabulary {} ({})",
      arguments.out, info.train_documents, info.eval_documents, info.train_tokens, info.eval_tokens,
      summary.target_tokens, 100.0 * static_cast<double>(summary.target_tokens) / static_cast<double>(tokens),
      summary.longest, info.vocab_size, info.tokenizer));
  return ExitCode::kDone;
}

}  // namespace

void add_data_chat_command(CLI::App& data, Command& chosen) {
  auto arguments = std::make_shared<ChatArguments>();
  CLI::App* command =
      data.add_subcommand("chat", "Convert conversations to documents with marked targets, for fine-tuning");
  command
      ->add_option("FILE", arguments->inputs,
                   "Files of JSON lines, or folders of them. A line has \"messages\" (role and content), "
                   "\"prompt\" and \"response\", or \"text\"")
      ->required();
  command
      ->add_option("--tokenizer", arguments->tokenizer,
                   "Folder of a chat model, with its tokenizer and chat template")
      ->required();
  command
      ->add_option(
          "--out", arguments->out,
          "Folder for train.bin, train.documents, train.targets, the same for eval, and dataset.json")
      ->required();
  command
      ->add_option("--targets", arguments->targets,
                   "The targets: \"assistant\" (its turns), \"last\" (its last turn) or \"all\" tokens "
                   "(default: assistant)")
      ->check(CLI::IsMember({"assistant", "last", "all"}));
  command
      ->add_option("--show", arguments->show,
                   "Print the first N conversations, with targets in colour, or as {+target+} in a file")
      ->check(not_negative());
  command->add_option("--eval-fraction", arguments->eval_fraction,
                      "Fraction of the conversations, spread evenly, for evaluation (default: 0.1)");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_data_chat(*arguments, launch); };
  });
}

}  // namespace trireme
