#include "runtime/checkpoint/hf_extras.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::TemporaryFolder;
using testing::write_file;

ErrorCode refusal_of_extras(const TemporaryFolder& folder) {
  try {
    read_hf_extras(folder.path());
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kRuntime;
}

TEST(HfExtras, ComeBackThroughAManifest) {
  const TemporaryFolder folder;
  write_file(
      folder / "config.json",
      R"({"bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": null, "max_position_embeddings": 64})");
  write_file(folder / "tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  write_file(folder / "chat_template.jinja", "{{ \"\u2713\" }}\n");
  write_file(folder / "README.md", "not kept");
  const HfExtras extras = hf_extras_of(nlohmann::json::parse(to_json(read_hf_extras(folder.path())).dump()));
  nlohmann::ordered_json config = {{"bos_token_id", nullptr}, {"pad_token_id", nullptr}};
  add_extras(extras, config);
  EXPECT_EQ(config, nlohmann::ordered_json(
                        {{"bos_token_id", 1}, {"pad_token_id", nullptr}, {"eos_token_id", {2, 3}}}));
  config["max_position_embeddings"] = 32;  // of the run's samples
  add_extras(extras, config);
  EXPECT_EQ(config["max_position_embeddings"], 64);
  config["max_position_embeddings"] = 128;
  add_extras(extras, config);
  EXPECT_EQ(config["max_position_embeddings"], 128);
  const TemporaryFolder out;
  write_hf_extras(extras, out.path());
  EXPECT_EQ(testing::read_file(out / "chat_template.jinja"),
            testing::read_file(folder / "chat_template.jinja"));
  EXPECT_EQ(testing::read_file(out / "tokenizer_config.json"),
            testing::read_file(folder / "tokenizer_config.json"));
  EXPECT_EQ(extras.files.size(), 2u);
}

TEST(HfExtras, NoneAreNull) {
  EXPECT_TRUE(to_json(HfExtras()).is_null());
  EXPECT_TRUE(hf_extras_of(nullptr).empty());
}

TEST(HfExtras, Refusals) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", R"({"eos_token_id": "2"})");
  EXPECT_EQ(refusal_of_extras(folder), ErrorCode::kInvalidInput);
  write_file(folder / "config.json", "{}");
  write_file(folder / "generation_config.json", "{");
  EXPECT_EQ(refusal_of_extras(folder), ErrorCode::kInvalidInput);
  write_file(folder / "generation_config.json", "{}");
  write_file(folder / "chat_template.jinja", "\xff");
  EXPECT_EQ(refusal_of_extras(folder), ErrorCode::kInvalidInput);
  write_file(folder / "chat_template.jinja", std::string((4 << 20) - 100, '\n'));  // 8 MiB as JSON
  EXPECT_EQ(refusal_of_extras(folder), ErrorCode::kInvalidInput);
  std::filesystem::remove(folder / "chat_template.jinja");
  const TemporaryFolder other;
  write_file(other / "secret", "{}");
  std::filesystem::create_symlink(other / "secret", folder / "chat_template.jinja");
  EXPECT_EQ(refusal_of_extras(folder), ErrorCode::kInvalidInput);
  // A manifest names no other file.
  EXPECT_THROW(hf_extras_of({{"special_tokens", nlohmann::json::object()}, {"files", {{"../x", ""}}}}),
               Error);
}

}  // namespace
}  // namespace trireme
