// trireme sample CHECKPOINT --prompt TEXT --tokens N [--seed S] [--temperature T] [--top-k K] [--threads N]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/sampler.h"
#include "launcher/families/model_family.h"
#include "launcher/host/machine.h"
#include "launcher/train/build.h"
#include "launcher/train/run_checkpoint.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

struct SampleArguments {
  std::string checkpoint;
  std::string prompt;
  std::string tokenizer;
  int threads = 0;
  SamplingOptions sampling{.num_tokens = 100, .temperature = 0.8, .seed = 0};
};

std::unique_ptr<Tokenizer> find_tokenizer(const SampleArguments& arguments, const Checkpoint& checkpoint,
                                          const RunState& state) {
  if (!arguments.tokenizer.empty()) return load_tokenizer(arguments.tokenizer);
  TRIREME_CHECK(!state.tokenizer.empty(),
                "{} does not say how its tokens were made: give --tokenizer bytes, or the path of a "
                "sentencepiece model",
                checkpoint.folder.string());
  if (state.tokenizer == "bytes") return make_byte_tokenizer();
  return load_sentencepiece(checkpoint.folder / kTokenizerModelFile);
}

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt,
                                        std::int64_t vocab) {
  // An empty prompt asks for the beginning of a document.
  auto tokens = prompt.empty() ? tokenizer.document_separator() : tokenizer.encode(prompt);
  for (const std::int32_t token : tokens) {
    TRIREME_CHECK(token < vocab,
                  "the tokenizer gives token {}, the model's vocabulary has {}: they do not belong together",
                  token, vocab);
  }
  return tokens;
}

constexpr std::size_t kPrintEvery = 8;  // tokens

/// Shows text while it grows.
class TextPrinter {
 public:
  TextPrinter(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt)
      : tokenizer_(tokenizer), tokens_(std::move(prompt)), prompt_size_(tokens_.size()) {}

  /// Prints what `generated` adds to the text. Without `all`, keeps back the end, which later tokens may
  /// still change: the bytes of an unfinished character.
  void print(std::span<const std::int32_t> generated, bool all) {
    // Decoded together with the prompt: a subword at the seam may be written differently on its own.
    tokens_.resize(prompt_size_);
    tokens_.insert(tokens_.end(), generated.begin(), generated.end());
    const std::string text = tokenizer_.decode(tokens_);
    const std::size_t end = all ? text.size() : text.size() - std::min<std::size_t>(text.size(), 4);
    if (end > printed_) {
      fmt::print("{}", std::string_view(text).substr(printed_, end - printed_));
      std::fflush(stdout);
      printed_ = end;
    }
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> tokens_;  // of the prompt, then generated
  const std::size_t prompt_size_;
  std::size_t printed_ = 0;  // bytes
};

ExitCode run_sample(const SampleArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme sample` runs alone: leave out mpirun");
  check_threads(arguments.threads, count_cores(), "--threads");
  const Checkpoint checkpoint = open_checkpoint_or_run(arguments.checkpoint);
  const RunState state = read_run_state(checkpoint);
  const ModelSection& model = state.config.model;
  TRIREME_CHECK(family_of(model).writes_text, "{} is of a {}, which writes no text",
                checkpoint.folder.string(), model.name);
  const auto tokenizer = find_tokenizer(arguments, checkpoint, state);
  const auto prompt = encode_prompt(*tokenizer, arguments.prompt, model.vocab);

  const int threads = arguments.threads > 0 ? arguments.threads : count_cores().usable();
  // Plain SGD keeps no state: only the parameters take memory.
  Engine engine(build_blocks(model), LocalWorld(1).communicator(0),
                {.threads = threads,
                 .optimizer = {.kind = OptimizerConfig::Kind::kSgd},
                 .precision = build_precision(state.config.precision)});
  load_state(engine, checkpoint.folder, StateParts::kModel);
  SamplingOptions sampling = arguments.sampling;
  sampling.context = model.seq_len;
  sampling.vocab = model.vocab;
  sampling.choices = std::min(model.vocab, tokenizer->vocab_size());
  TextPrinter printer(*tokenizer, arguments.prompt.empty() ? std::vector<std::int32_t>{} : prompt);
  const auto tokens = generate(engine, prompt, sampling, [&](std::span<const std::int32_t> so_far) {
    if (so_far.size() % kPrintEvery == 0) printer.print(so_far, /*all=*/false);
  });
  printer.print(tokens, /*all=*/true);
  fmt::print("\n");
  return ExitCode::kDone;
}

}  // namespace

void add_sample_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = app.add_subcommand("sample", "Generate text with a trained model");
  SamplingOptions& sampling = arguments->sampling;
  command->add_option("CHECKPOINT", arguments->checkpoint, "A checkpoint, or the output folder of a run")
      ->required();
  command->add_option("--prompt", arguments->prompt, "Text to continue");
  command->add_option("--tokens", sampling.num_tokens, "Tokens to generate (default: 100)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31));
  command->add_option("--seed", sampling.seed, "The same seed gives the same text (default: 0)");
  command->add_option("--temperature", sampling.temperature, "0: always the likeliest token (default: 0.8)")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", sampling.top_k, "Choose among the K likeliest tokens (default: 0, all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", arguments->threads, "Host threads (default: 0, the cores it may use)")
      ->check(CLI::Range(0, 4096));
  command->add_option("--tokenizer", arguments->tokenizer,
                      "\"bytes\" or a sentencepiece model, over what the checkpoint says");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_sample(*arguments, launch); };
  });
}

}  // namespace trireme
