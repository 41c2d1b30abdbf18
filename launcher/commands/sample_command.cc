// trireme sample CHECKPOINT --images N --grid FILE.png [--sampler ddim] [--steps 50] [--guidance G] ...
// trireme sample CHECKPOINT --prompt TEXT [--chat [--system TEXT]] --tokens N [--seed S] [--temperature T]
// ...
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/commands/chat_prompts.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/generated_text.h"
#include "launcher/commands/number_range.h"
#include "launcher/commands/sample_pictures.h"
#include "launcher/commands/sampler.h"
#include "launcher/data/data_check.h"
#include "launcher/families/model_family.h"
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/page/run_files.h"
#include "launcher/render/json_text.h"
#include "launcher/train/trained_model.h"
#include "parallel/comm/local.h"
#include "runtime/base/regular_file.h"
#include "runtime/data/tokenizer.h"
#include "runtime/diffusion/latent_dataset.h"

namespace trireme {
namespace {

struct SampleArguments {
  std::string checkpoint;
  std::string prompt;
  std::string prompts;  // a file
  bool chat = false;    // prompts are messages of a user
  std::string system;
  TextEnds ends;
  std::string tokenizer;
  int threads = 0;
  bool ema = false;
  SamplingOptions sampling{.num_tokens = 100, .temperature = 0.8, .seed = 0};
  PictureArguments pictures;
};

std::unique_ptr<Tokenizer> find_tokenizer(const SampleArguments& arguments, const TrainedModel& model) {
  if (arguments.tokenizer.empty()) return model.tokenizer();
  auto tokenizer = load_tokenizer(arguments.tokenizer);
  compare_data(Meeting::kSample, model.data,
               {.checkpoint = model.folder.string(),
                .data = {.tokenizer = record_of(*tokenizer)},
                .tokenizer = fmt::format("--tokenizer \"{}\"", arguments.tokenizer)});
  return tokenizer;
}

/// An empty prompt means the beginning of a document.
std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt) {
  return prompt.empty() ? tokenizer.document_separator() : tokenizer.encode(prompt);
}

void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocab) {
  for (const std::int32_t token : tokens) {
    TRIREME_CHECK(token < vocab,
                  "the tokenizer gives token {}, the model's vocabulary has {}: they do not belong together",
                  token, vocab);
  }
}

constexpr std::size_t kPrintEvery = 8;  // tokens

/// The prompts in a file, one per line.
std::vector<std::string> read_prompts(const std::string& path) {
  std::vector<std::string> prompts;
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  std::istringstream lines(read_text_file({.path = path, .what = "file of prompts", .max_bytes = kMaxBytes}));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    prompts.push_back(line);
  }
  TRIREME_CHECK(!prompts.empty(), "{} has no line, and so no prompt", path);
  return prompts;
}

struct Prompt {
  std::string text;
  std::vector<std::int32_t> tokens;  // at least one
};

/// Templates of folders given with --tokenizer come first: a run may have no template of its own.
ChatRenderer::Template chat_template_of(const SampleArguments& arguments, const TrainedModel& model) {
  std::error_code error;
  if (std::filesystem::is_directory(arguments.tokenizer, error)) {
    return {.folder = arguments.tokenizer, .contents = std::nullopt};
  }
  return {.folder = model.folder.string(),
          .contents = model.extras().files,
          .remedy = "Give the folder of the chat model with --tokenizer"};
}

/// The prompts of the arguments. With --chat, the ends of an answer are added to `ends`.
std::vector<Prompt> take_prompts(const SampleArguments& arguments, const TrainedModel& model,
                                 const Tokenizer& tokenizer, std::int64_t vocab, TextEnds& ends) {
  std::vector<std::string> texts{arguments.prompt};
  if (!arguments.prompts.empty()) texts = read_prompts(arguments.prompts);
  std::vector<Prompt> prompts;
  if (!arguments.chat) {
    for (const std::string& text : texts)
      prompts.push_back({.text = text, .tokens = encode_prompt(tokenizer, text)});
  } else {
    TRIREME_CHECK(!texts.front().empty() || !arguments.prompts.empty(),
                  "--chat needs a message of the user: give --prompt TEXT or --prompts FILE");
    ChatRenderer::Request request{.chat_template = chat_template_of(arguments, model)};
    request.prompts = texts;
    request.system = arguments.system;
    ChatPrompts chat = render_prompts(request, tokenizer);
    for (std::size_t i = 0; i < texts.size(); ++i)
      prompts.push_back({.text = texts[i], .tokens = std::move(chat.tokens[i])});
    ends.tokens = end_ids_of(model.extras());
    ends.tokens.insert(ends.tokens.end(), chat.end_tokens.begin(), chat.end_tokens.end());
    ends.texts.insert(ends.texts.end(), chat.end_texts.begin(), chat.end_texts.end());
  }
  for (const Prompt& prompt : prompts) check_tokens(prompt.tokens, vocab);
  return prompts;
}

/// A trained model with its tokenizer.
class Sampler {
 public:
  Sampler(Engine& engine, const Tokenizer& tokenizer, const ModelSection& model,
          const SamplingOptions& sampling, TextEnds ends)
      : engine_(engine), tokenizer_(tokenizer), sampling_(sampling), ends_(std::move(ends)) {
    sampling_.context =
        family_of(model).is_recurrent ? std::numeric_limits<std::int64_t>::max() : model.seq_len;
    sampling_.vocab = model.vocab;
    sampling_.choices = std::min(model.vocab, tokenizer.vocab_size());
  }

  /// Returns the prompt and its continuation, or only the latter for an `answer`; `show` receives the result
  /// in pieces as it grows.
  std::string write(const Prompt& prompt, bool answer,
                    const std::function<void(std::string_view)>& show) const {
    GeneratedText text(tokenizer_, prompt.text.empty() ? std::vector<std::int32_t>{} : prompt.tokens, ends_);
    const std::size_t begin = answer ? text.prompt_bytes() : 0;
    std::size_t shown = begin;
    const auto show_until = [&](std::size_t end) {
      if (end <= shown) return;
      show(std::string_view(text.text()).substr(shown, end - shown));
      shown = end;
    };
    generate(engine_, prompt.tokens, sampling_, [&](std::span<const std::int32_t> so_far) {
      const bool goes_on = text.update(so_far);
      if (so_far.size() % kPrintEvery == 0) show_until(text.settled());
      return goes_on;
    });
    show_until(text.text().size());
    return text.text().substr(begin);
  }

 private:
  Engine& engine_;
  const Tokenizer& tokenizer_;
  SamplingOptions sampling_;
  TextEnds ends_;
};

// Plain SGD has no state: only the parameters take memory.
EngineOptions inference_options(const JobConfig& config, int threads) {
  return {.threads = threads > 0 ? threads : count_cores().usable(),
          .optimizer = {.kind = OptimizerConfig::Kind::kSgd},
          .precision = build_precision(config.precision)};
}

ExitCode run_sample(const SampleArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme sample` runs alone: leave out mpirun");
  check_threads(arguments.threads, count_cores(), "--threads");
  const TrainedModel trained = open_trained_model(arguments.checkpoint, arguments.ema);
  JobConfig job = resolve(trained.config);
  const ModelSection& model = job.model;
  if (family_of(model).makes_pictures) {
    PictureArguments pictures = arguments.pictures;
    if (pictures.has_no_output() && model.channels == 3 &&
        file_within(arguments.checkpoint, "metrics.jsonl")) {
      pictures.grid = (std::filesystem::path(arguments.checkpoint) / kGridPicture).string();
    }
    // Folders of diffusers do not say how many vectors a condition has.
    if (!trained.checkpoint && model.condition_width > 0 && !pictures.condition.empty())
      job.model.seq_len = condition_vectors(pictures.condition);
    check_picture_arguments(pictures, job);
    Engine engine(build_blocks(model), LocalWorld(1).communicator(0),
                  inference_options(job, arguments.threads));
    trained.load(engine, arguments.ema);
    sample_pictures(engine, pictures, job, arguments.sampling.seed);
    return ExitCode::kDone;
  }
  TRIREME_CHECK(family_of(model).writes_text, "{} is of a {}, which writes no text", trained.folder.string(),
                model.name);
  TRIREME_CHECK(arguments.pictures.count == 0, "--images {}: {} is of a {}, which writes text",
                arguments.pictures.count, trained.folder.string(), model.name);
  const auto tokenizer = find_tokenizer(arguments, trained);
  TextEnds ends = arguments.ends;
  const std::vector<Prompt> prompts = take_prompts(arguments, trained, *tokenizer, model.vocab, ends);

  Engine engine(build_blocks(model), LocalWorld(1).communicator(0),
                inference_options(trained.config, arguments.threads));
  trained.load(engine, arguments.ema);
  const Sampler sampler(engine, *tokenizer, model, arguments.sampling, std::move(ends));
  if (arguments.prompts.empty()) {
    sampler.write(prompts.front(), arguments.chat, print_generated);
    print_line("");
    return ExitCode::kDone;
  }
  for (const Prompt& prompt : prompts) {
    const nlohmann::ordered_json line = {
        {"prompt", prompt.text}, {"text", sampler.write(prompt, arguments.chat, [](std::string_view) {})}};
    print_line(json_text(line));
    flush_output();
  }
  return ExitCode::kDone;
}

CLI::Validator not_empty() {
  return CLI::Validator([](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); },
                        "TEXT");
}

void add_picture_options(CLI::App& command, PictureArguments& pictures) {
  CLI::Option* images = command.add_option("--images", pictures.count, "UNets: number of pictures");
  images->check(CLI::Range(1, 1 << 20));
  for (const char* text_option :
       {"--prompt", "--prompts", "--tokens", "--temperature", "--top-k", "--top-p", "--stop",
        "--stop-at-document", "--no-cache", "--tokenizer", "--chat", "--system"}) {
    images->excludes(command.get_option(text_option));
  }
  command
      .add_option("--grid", pictures.grid,
                  "Write all pictures into one PNG file (default: grid.png of the run, which its page shows)")
      ->check(not_empty());
  command.add_option("--out", pictures.folder, "Write each picture as a PNG file in this folder")
      ->check(not_empty());
  command.add_option("--latents", pictures.latents, "Write the samples as a shard of latents")
      ->check(not_empty());
  command.add_option("--sampler", pictures.method, "ddpm, ddim or dpm-solver++ (default: ddim)")
      ->check(CLI::IsMember({"ddpm", "ddim", "dpm-solver++"}));
  command.add_option("--steps", pictures.num_steps, "Steps of the sampler (default: 1000 of ddpm, else 50)")
      ->check(CLI::Range(1, 1000));
  command
      .add_option("--guidance", pictures.guidance,
                  "Scale of classifier-free guidance; needs diffusion.class_dropout (default: 1, none)")
      ->check(finite_range(0.0, 100.0));
  command
      .add_option("--class", pictures.picture_class, "Class of all pictures (default: each class in turn)")
      ->check(not_negative());
  command
      .add_option("--condition", pictures.condition,
                  "Safetensors file with `condition` [N, L, D]; pictures take its rows in turn")
      ->check(not_empty());
  for (const char* option :
       {"--grid", "--out", "--latents", "--sampler", "--steps", "--guidance", "--class", "--condition"}) {
    command.get_option(option)->needs(images);
  }
}

}  // namespace

void add_sample_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = app.add_subcommand("sample", "Generate text or pictures with a trained model");
  command->footer(
      "On a terminal, control characters in the text are shown as escapes, except newlines and tabs. "
      "Files and pipes get the text unchanged.\n\n"
      "Pictures of a UNet:\n  trireme sample out/job --images 64 --grid grid.png");
  SamplingOptions& sampling = arguments->sampling;
  command
      ->add_option(
          "CHECKPOINT", arguments->checkpoint,
          "A checkpoint, the output folder of a run (its newest checkpoint), or a folder of Hugging Face's "
          "transformers or diffusers")
      ->required();
  CLI::Option* prompt = command->add_option("--prompt", arguments->prompt, "Text to continue");
  command
      ->add_option("--prompts", arguments->prompts,
                   "File with one prompt per line; prints one JSON object per line: prompt, text")
      ->excludes(prompt)
      ->check(not_empty());
  CLI::Option* chat = command->add_flag(
      "--chat", arguments->chat,
      "Prompts are messages of a user, written by the chat template of the model (or of the folder of "
      "--tokenizer). Prints the answers only, each up to the end of its turn. Needs python3 and Jinja2");
  command->add_option("--system", arguments->system, "With --chat: the system message before each prompt")
      ->needs(chat);
  command->add_option("--tokens", sampling.num_tokens, "Tokens to generate (default: 100)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31));
  command->add_option("--seed", sampling.seed, "Seed; equal seeds give equal texts or pictures (default: 0)")
      ->check(not_negative());
  command
      ->add_option("--temperature", sampling.temperature,
                   "Sampling temperature; 0 always takes the most likely token (default: 0.8)")
      ->check(finite_range(0.0, 100.0));
  command->add_option("--top-k", sampling.top_k, "Sample from the K most likely tokens (default: 0, all)")
      ->check(not_negative());
  command
      ->add_option("--top-p", sampling.top_p,
                   "Of these, sample from the fewest tokens with this total probability (default: 1, all)")
      ->check(finite_range(0.0, 1.0));
  command->add_option("--stop", arguments->ends.texts, "End before this text; repeatable")
      ->expected(1)
      ->take_all()
      ->check(not_empty());
  command->add_flag("--stop-at-document", arguments->ends.document, "End at the end of a document");
  command->add_flag(
      "!--no-cache", sampling.cache,
      "Compute every token from the whole context, without cached keys and values, or an LSTM's state");
  command->add_flag("--ema", arguments->ema,
                    "Use the averages of a run with train.ema instead of the parameters");
  command->add_option("--threads", arguments->threads, "Host threads (default: 0, the cores it may use)")
      ->check(CLI::Range(0, 4096));
  command->add_option(
      "--tokenizer", arguments->tokenizer,
      "\"bytes\" or a tokenizer path, as in `trireme data text`, instead of the checkpoint's tokenizer");
  add_picture_options(*command, arguments->pictures);
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_sample(*arguments, launch); };
  });
}

}  // namespace trireme
