// `trireme data chat` by the built program: records, targets, and one clear error for each bad input.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/launcher/commands/cli_fixture.h"
#include "tests/runtime/data/small_vocabulary.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kChatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr const char* kGood =
    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}]})";

class ChatCli : public Cli {
 protected:
  void SetUp() override {
    if (std::system("python3 -I -c 'import jinja2' 2>/dev/null") != 0)
      GTEST_SKIP() << "python3 has no Jinja2: apt-get install python3-jinja2";
    write_tokenizer({"<|im_start|>", "<|im_end|>"});
    write_template(kChatml);
  }
  void write_tokenizer(const std::vector<std::string>& special) {
    nlohmann::json json = testing::tokenizer_of({});
    for (const std::string& token : special)
      json["added_tokens"].push_back(
          {{"id", 256 + json["added_tokens"].size()}, {"content", token}, {"special", true}});
    std::filesystem::create_directories(scratch_ / "model");
    testing::write_file(scratch_ / "model/tokenizer.json", json.dump());
  }
  void write_template(const std::string& text) {
    testing::write_file(scratch_ / "model/chat_template.jinja", text);
  }
  std::vector<std::string> command(const std::string& lines, std::vector<std::string> more = {}) {
    testing::write_file(scratch_ / "chats.jsonl", lines);
    std::vector<std::string> words = {"data", "chat", "chats.jsonl", "--tokenizer", "model", "--out", "out"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string refusal_of(const std::string& lines, std::vector<std::string> more = {}) {
    const std::string text = refusal(command(lines, std::move(more)));
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "out"));
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    return text;
  }
  /// A line with these messages, after a good one and an empty line: line 3.
  std::string refusal_of_messages(const std::string& messages) {
    return refusal_of(std::string(kGood) + "\n\n{\"messages\": [" + messages + "]}\n");
  }
};

TEST_F(ChatCli, ShowsTheTargetsOfEveryKindOfRecord) {
  const ProgramResult result = run(
      command(std::string(kGood) + "\n{\"prompt\": \"2+2\", \"response\": \"4\"}\n{\"text\": \"plain\"}\n",
              {"--show", "3", "--eval-fraction", "0"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{+yes?<|im_end|>+}\n"));
  EXPECT_THAT(result.out, HasSubstr("<|im_start|>assistant\n{+4<|im_end|>+}\n"));
  EXPECT_THAT(result.out, HasSubstr("p{+lain+}"));
  EXPECT_THAT(result.out, HasSubstr("out: 3 training and 0 evaluation conversations"));
  EXPECT_THAT(result.out, HasSubstr("11 of them targets"));
}

TEST_F(ChatCli, TargetsAreAllTurnsTheLastOrEverything) {
  const std::string two =
      R"({"messages": [{"role": "system", "content": ""}, {"role": "user", "content": "a"},)"
      R"( {"role": "assistant", "content": "b"}, {"role": "user", "content": "<|im_end|>"},)"
      R"( {"role": "assistant", "content": "c"}]})";
  const auto shown = [&](const std::string& targets) {
    const ProgramResult result =
        run(command(two, {"--show", "1", "--eval-fraction", "0", "--targets", targets}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(shown("assistant"), AllOf(HasSubstr("{+b<|im_end|>+}"), HasSubstr("{+c<|im_end|>+}")));
  EXPECT_THAT(shown("last"), AllOf(Not(HasSubstr("{+b")), HasSubstr("{+c<|im_end|>+}")));
  EXPECT_THAT(shown("all"), HasSubstr("<|im_start|>{+system"));
}

TEST_F(ChatCli, NamesTheLineOfABadRecord) {
  EXPECT_THAT(refusal_of(std::string(kGood) + "\n{\"messages\": [\n"),
              HasSubstr("chats.jsonl:2: the line is not JSON"));
  EXPECT_THAT(refusal_of("{\"conversation\": []}\n"), HasSubstr("chats.jsonl:1: a record has \"messages\""));
  EXPECT_THAT(refusal_of("{\"prompt\": \"hi\"}\n"), HasSubstr("message 2 (assistant) has no \"content\""));
  EXPECT_THAT(refusal_of_messages(R"({"role": "assistant", "content": "a"})"),
              HasSubstr("chats.jsonl:3: message 1 has the role assistant, which comes first"));
  EXPECT_THAT(refusal_of_messages(R"({"role": "user", "content": "a"}, {"role": "user", "content": "b"})"),
              HasSubstr("message 2 has the role user, which follows user: expected assistant"));
  EXPECT_THAT(refusal_of_messages(R"({"role": "human", "content": "a"})"), HasSubstr("the role \"human\""));
  EXPECT_THAT(
      refusal_of_messages(R"({"role": "user", "content": "a"}, {"role": "assistant", "content": " "})"),
      HasSubstr("chats.jsonl:3: message 2 is an empty turn of the assistant"));
  EXPECT_THAT(refusal_of_messages(R"({"role": "user", "content": "a"})"),
              HasSubstr("chats.jsonl:3: the conversation has no turn of the assistant"));
  EXPECT_THAT(
      refusal_of_messages(R"({"role": "user", "content": "\ud83d"}, {"role": "assistant", "content": "a"})"),
      HasSubstr("half of a surrogate pair"));
}

TEST_F(ChatCli, RefusesTemplatesWithoutAnExactMask) {
  write_template("{{ messages | length }}" + std::string(kChatml));
  EXPECT_THAT(refusal_of(kGood), HasSubstr("cannot be derived exactly"));
  write_template("{% if messages | length > 2 %}{{ raise_exception('too many') }}{% endif %}" +
                 std::string(kChatml));
  EXPECT_THAT(refusal_of_messages(R"({"role": "system", "content": "s"}, {"role": "user", "content": "a"},)"
                                  R"( {"role": "assistant", "content": "b"})"),
              AllOf(HasSubstr("chats.jsonl:3: the chat template"), HasSubstr("raises: too many")));
  write_template("{% for m in messages %}");
  EXPECT_THAT(refusal_of(kGood), HasSubstr("is not valid in its line 1"));
  write_template("{{ 1 }}");
  EXPECT_THAT(refusal_of(kGood), HasSubstr("does not write the content of an assistant's turn"));
  std::filesystem::remove(scratch_ / "model/chat_template.jinja");
  EXPECT_THAT(refusal_of(kGood), HasSubstr("model has no chat template"));
}

TEST_F(ChatCli, NamesASpecialTokenThatTheVocabularyLacks) {
  write_tokenizer({"<|im_start|>"});
  EXPECT_THAT(refusal_of(kGood), HasSubstr("special token <|im_end|>, which the vocabulary does not have"));
}

/// A GPT that has learned one answer by heart.
class ChatSample : public ChatCli {
 protected:
  void SetUp() override {
    ChatCli::SetUp();
    if (IsSkipped()) return;
    const ProgramResult data = run(command(kGood, {"--eval-fraction", "0"}));
    ASSERT_EQ(data.exit_code, 0) << data.err;
    testing::write_file(scratch_ / "job.toml",
                        "[model]\nname = \"gpt\"\nlayers = 1\nhidden = 32\nheads = 2\nvocab = 264\nseq_len = "
                        "64\ndropout = 0.0\n[data]\nkind = \"chat\"\ntrain = \"out\"\n[train]\nsteps = "
                        "60\nglobal_batch = 1\nmicro_batch = 1\n[optimizer]\nlr = 0.01\nwarmup_steps = "
                        "5\n[parallel]\nthreads = 1\n");
    const ProgramResult trained = run({"train", "job.toml", "--out", "run"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  std::vector<std::string> sample(const std::string& place, std::vector<std::string> more) {
    std::vector<std::string> words = {"sample", place, "--temperature", "0", "--tokens", "40", "--chat"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(ChatSample, AnswersUpToTheEndOfTheTurn) {
  const ProgramResult given = run(sample("run", {"--prompt", "hi", "--tokenizer", "model"}));
  EXPECT_EQ(given.exit_code, 0) << given.err;
  EXPECT_EQ(given.out, "yes?\n");
  testing::write_file(scratch_ / "prompts", "hi\nhi\n");
  const ProgramResult lines = run(sample("run", {"--prompts", "prompts", "--tokenizer", "model"}));
  EXPECT_EQ(lines.out, "{\"prompt\":\"hi\",\"text\":\"yes?\"}\n{\"prompt\":\"hi\",\"text\":\"yes?\"}\n");
}

TEST_F(ChatSample, TakesTheTemplateOfTheFolderAndOfARunThatStartedFromIt) {
  const ProgramResult exported = run({"export", "run", "--format", "hf", "--out", "hf"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(refusal(sample("hf", {"--prompt", "hi"})),
              AllOf(HasSubstr("has no chat template"), HasSubstr("with --tokenizer")));
  testing::write_file(scratch_ / "hf/chat_template.jinja", kChatml);
  EXPECT_EQ(run(sample("hf", {"--prompt", "hi"})).out, "yes?\n");
  const ProgramResult tuned =
      run({"train", "job.toml", "--out", "tuned", "--set", "model.init_from=hf", "--set", "train.steps=1",
           "--set", "optimizer.lr=1e-6", "--set", "optimizer.warmup_steps=0"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_EQ(run(sample("tuned", {"--prompt", "hi"})).out, "yes?\n");
  // A template without special tokens ends an answer with its text.
  testing::write_file(
      scratch_ / "hf/chat_template.jinja",
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{% if m.role == "
      "'assistant' %}?{% else %}{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\\n' }}{% endif %}");
  EXPECT_EQ(run(sample("hf", {"--prompt", "hi"})).out, "yes\n");
}

TEST_F(ChatSample, NamesWhatIsMissing) {
  EXPECT_THAT(
      refusal(sample("run", {"--prompt", "hi"})),
      AllOf(HasSubstr("run/checkpoints/"), HasSubstr("has no chat template"), HasSubstr("--tokenizer")));
  EXPECT_THAT(refusal(sample("run", {"--tokenizer", "model"})),
              HasSubstr("--chat needs a message of the user"));
  write_template(
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system message') }}{% endif %}" +
      std::string(kChatml));
  EXPECT_THAT(refusal(sample("run", {"--prompt", "hi", "--tokenizer", "model", "--system", "Be brief."})),
              HasSubstr("raises: no system message"));
}

TEST_F(ChatSample, EvaluatesTheTargetsAlone) {
  const ProgramResult answers = run({"eval", "run", "--data", "out/train.bin"});
  EXPECT_THAT(answers.out, HasSubstr("perplexity 1.0")) << answers.err;
}

TEST_F(ChatSample, ConversationsAreNoStreamOfTokens) {
  EXPECT_THAT(refusal({"train", "job.toml", "--out", "stream", "--set", "data.kind=tokens"}),
              AllOf(HasSubstr("out/train.targets marks the targets of conversations"),
                    HasSubstr("set data.kind = \"chat\"")));
  const ProgramResult resumed = run({"train", "job.toml", "--out", "run", "--set",
                                     "data.too_long=cut_beginning", "--set", "train.steps=61"});
  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_THAT(resumed.err,
              AllOf(HasSubstr("data.too_long = cut_end"), HasSubstr("data.too_long = cut_beginning")));
}

}  // namespace
}  // namespace trireme
