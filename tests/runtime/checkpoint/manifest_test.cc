#include "runtime/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

Manifest example() {
  return {
      .step = 12,
      .files = {{"a.safetensors", 100, 0xFFFFFFFFFFFFFFFFull, {{"w", 7}, {"b \"1\"", 0}}}, {"b.json", 0, 5}},
      .content = {{"seed", 1337}, {"loss_scale", 65536.0}, {"lr", 0.1}, {"name", "gpt"}, {"none", nullptr}}};
}

TEST(Manifest, RoundTrip) {
  const TemporaryFolder folder;
  write_manifest(example(), folder.path());
  const Manifest read = read_manifest(folder.path());
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.files, example().files);
  EXPECT_EQ(read.content, example().content);
}

TEST(Manifest, EveryTruncationAndEveryChangedDigitIsNoticed) {
  const TemporaryFolder folder;
  write_manifest(example(), folder.path());
  const std::string whole = read_file(folder / "manifest.json");
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {  // the last two are "}" and a line end
    write_file(folder / "manifest.json", whole.substr(0, size));
    EXPECT_THROW(read_manifest(folder.path()), Error) << size;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] < '0' || whole[i] > '9') continue;
    std::string changed = whole;
    changed[i] = whole[i] == '9' ? '8' : static_cast<char>(whole[i] + 1);
    write_file(folder / "manifest.json", changed);
    EXPECT_THROW(read_manifest(folder.path()), Error) << changed;
  }
}

TEST(Manifest, ErrorsNameTheFileAndTheReason) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    write_file(folder / "manifest.json", text);
    return message_of([&] { read_manifest(folder.path()); });
  };
  EXPECT_NE(message_of([&] { read_manifest(folder.path()); }).find("No such file"), std::string::npos);
  EXPECT_NE(message("").find("manifest.json is damaged"), std::string::npos);
  EXPECT_NE(message("[]").find("manifest.json is damaged"), std::string::npos);
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_NE(message(deep).find("manifest.json is damaged: its JSON is nested 200000 levels deep"),
            std::string::npos);
  EXPECT_NE(message("{\"format\": " + deep + "}").find("200001 levels"), std::string::npos);
  EXPECT_NE(message(R"({"format": "other"})").find("other"), std::string::npos);
  EXPECT_NE(message(R"({"format": "trireme-checkpoint", "version": 9})").find("version is 9"),
            std::string::npos);
}

TEST(Manifest, ContentThatIsNoTextIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_manifest({.step = 1, .content = {{"name", "\xff"}}}, folder.path()), Error);
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(Manifest, NamesThatLeaveTheFolderAreRefused) {
  const TemporaryFolder folder;
  for (const char* name : {"/etc/hostname", "../secret", "sub/../../secret", "", ".."}) {
    write_manifest({.step = 1, .files = {{name, 6, 5}}, .content = {}}, folder.path());
    EXPECT_NE(message_of([&] { read_manifest(folder.path()); }).find("not the name of a file in its folder"),
              std::string::npos)
        << name;
  }
}

TEST(Manifest, OneWithoutFilesIsNotWhole) {
  const TemporaryFolder folder;
  write_manifest({.step = 1, .files = {}, .content = {}}, folder.path());
  EXPECT_NE(message_of([&] { read_manifest(folder.path()); }).find("it lists no files"), std::string::npos);
}

TEST(Manifest, ALinkOutOfTheFolderIsRefused) {
  const TemporaryFolder folder;
  write_manifest({.step = 1, .files = {{"a", 6, 5}}, .content = {}}, folder.path());
  std::filesystem::create_directory(folder / "checkpoint");
  std::filesystem::create_symlink("../manifest.json", folder / "checkpoint/manifest.json");
  const std::string message = message_of([&] { read_manifest(folder / "checkpoint"); });
  EXPECT_NE(message.find("checkpoint/manifest.json is a link to "), std::string::npos) << message;
  EXPECT_NE(message.find("outside of its folder"), std::string::npos) << message;
}

TEST(VerifyFiles, RefusesLinksOutOfTheFolder) {
  const TemporaryFolder folder;
  write_file(folder / "secret", "secret");
  std::filesystem::create_directory(folder / "checkpoint");
  std::filesystem::create_symlink("../secret", folder / "checkpoint/a");
  CheckpointFile file = describe_file(folder / "secret");
  file.name = "a";
  EXPECT_NE(message_of([&] {
              verify_files({.files = {file}, .content = {}}, folder / "checkpoint", Verify::kSizes);
            }).find("outside of its folder"),
            std::string::npos);
}

TEST(VerifyFiles, NamesWhatIsMissingShortOrChanged) {
  const TemporaryFolder folder;
  write_file(folder / "a", "first");
  write_file(folder / "b", "second");
  const Manifest manifest{.files = {describe_file(folder / "a"), describe_file(folder / "b")}};
  const auto message = [&](Verify verify) {
    return message_of([&] { verify_files(manifest, folder.path(), verify); });
  };
  EXPECT_EQ(message(Verify::kChecksums), "");
  write_file(folder / "b", "secunD");
  EXPECT_EQ(message(Verify::kSizes), "");
  EXPECT_NE(message(Verify::kChecksums).find("b was changed"), std::string::npos);
  write_file(folder / "b", "sec");
  EXPECT_NE(message(Verify::kSizes).find("b has 3 bytes, but its manifest says 6"), std::string::npos);
  std::filesystem::remove(folder / "a");
  EXPECT_NE(message(Verify::kSizes).find("a does not exist"), std::string::npos);
}

}  // namespace
}  // namespace trireme
