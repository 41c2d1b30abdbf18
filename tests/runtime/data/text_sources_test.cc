#include "runtime/data/text_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

class TextSourcesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "in/b.txt", "bb");
    write_file(folder_ / "in/a/z.txt", "zzz");
    write_file(folder_ / "in/a/y", "y");
    write_file(folder_ / "in/program", std::string("ELF\0\1", 5));
    write_file(folder_ / "in/empty.txt", "");
    write_file(folder_ / "in/.git/config", "hidden");
    write_file(folder_ / "in/.hidden", "hidden");
    write_file(folder_ / "in/out/dataset.json", "result of an earlier run");
  }
  std::vector<std::string> names(const TextSources& sources) const {
    std::vector<std::string> names;
    for (const fs::path& file : sources.files) names.push_back(file.lexically_relative(folder_.path()));
    return names;
  }
  TemporaryFolder folder_;
};

TEST_F(TextSourcesTest, WalksFoldersInOrder) {
  const std::vector<fs::path> inputs = {folder_ / "in"};
  const TextSources sources = find_text({.inputs = inputs, .exclude = folder_ / "in/out"});
  EXPECT_EQ(names(sources), (std::vector<std::string>{"in/a/y", "in/a/z.txt", "in/b.txt"}));
  EXPECT_EQ(sources.bytes, 6);
  EXPECT_EQ(sources.notes.num_left_out(TextFlaw::kBinary), 1);
  EXPECT_EQ(sources.notes.num_left_out(TextFlaw::kEmpty), 1);
}

TEST_F(TextSourcesTest, KeepsTheOrderOfInputsAndTakesEachFileOnce) {
  const std::vector<fs::path> inputs = {folder_ / "in/b.txt", folder_ / "in/.hidden", folder_ / "in"};
  EXPECT_EQ(names(find_text({.inputs = inputs, .exclude = folder_ / "in/out"})),
            (std::vector<std::string>{"in/b.txt", "in/.hidden", "in/a/y", "in/a/z.txt"}));
}

TEST_F(TextSourcesTest, FollowsLinksToFilesOfTheFolderAlone) {
  write_file(folder_ / "elsewhere/c.txt", "c");
  write_file(folder_ / "in/a/.c.txt", "c");
  fs::create_symlink(".c.txt", folder_ / "in/a/link");
  fs::create_symlink(folder_ / "elsewhere/c.txt", folder_ / "in/a/outside");
  fs::create_directory_symlink(folder_ / "in", folder_ / "in/a/loop");
  fs::create_symlink(folder_ / "nowhere", folder_ / "in/a/broken");
  const std::vector<fs::path> inputs = {folder_ / "in/a"};
  const TextSources sources = find_text({.inputs = inputs});
  EXPECT_EQ(names(sources), (std::vector<std::string>{"in/a/link", "in/a/y", "in/a/z.txt"}));
  EXPECT_EQ(sources.notes.num_left_out(TextFlaw::kFolderLink), 1);
  EXPECT_EQ(sources.notes.num_left_out(TextFlaw::kFileLink), 1);
  const std::vector<std::string> notes = describe(sources.notes, /*lines=*/false);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes[1], AllOf(HasSubstr("1 linked file,"), HasSubstr("in/a/outside"),
                              HasSubstr("to include the files, name them")));
  // Links named by the user are followed.
  fs::create_directory_symlink(folder_ / "in/a", folder_ / "named");
  const std::vector<fs::path> named = {folder_ / "named", folder_ / "in/a/outside"};
  EXPECT_EQ(names(find_text({.inputs = named})),
            (std::vector<std::string>{"named/link", "named/y", "named/z.txt", "in/a/outside"}));
}

TEST_F(TextSourcesTest, TakesAFileOnceByWhateverLinks) {
  fs::create_hard_link(folder_ / "in/b.txt", folder_ / "in/a/hard");
  fs::create_symlink(folder_ / "in/b.txt", folder_ / "in/a/soft");
  const std::vector<fs::path> inputs = {folder_ / "in/b.txt", folder_ / "in"};
  EXPECT_EQ(names(find_text({.inputs = inputs, .exclude = folder_ / "in/out"})),
            (std::vector<std::string>{"in/b.txt", "in/a/y", "in/a/z.txt"}));
}

TEST_F(TextSourcesTest, LeavesOutWhatIsNoTextOfFoldersAndRefusesItByName) {
  const std::string utf16("\xff\xfen\0e\0g\0", 8);
  write_file(folder_ / "more/a.txt", "text");
  write_file(folder_ / "more/mark.txt", "\xef\xbb\xbf");
  write_file(folder_ / "more/pointer.txt",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  write_file(folder_ / "more/records.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  write_file(folder_ / "more/package.json", "{\"name\": \"one object\"}");
  write_file(folder_ / "more/cut.json", "[{\"name\": \"one\"}, {\"na");
  write_file(folder_ / "more/utf16.txt", utf16);
  const std::vector<fs::path> inputs = {folder_ / "more"};
  const TextSources sources = find_text({.inputs = inputs});
  EXPECT_EQ(names(sources), std::vector<std::string>{"more/a.txt"});
  for (const TextFlaw flaw : {TextFlaw::kEmpty, TextFlaw::kPointer, TextFlaw::kUtf16})
    EXPECT_EQ(sources.notes.num_left_out(flaw), 1) << name_of(flaw);
  EXPECT_EQ(sources.notes.num_left_out(TextFlaw::kJson), 3);
  const auto refusal = [&](const char* name) {
    const std::vector<fs::path> file = {folder_ / "more" / name};
    return message_of([&] { find_text({.inputs = file}); });
  };
  EXPECT_NE(refusal("utf16.txt").find("utf16.txt is UTF-16LE"), std::string::npos) << refusal("utf16.txt");
  EXPECT_NE(refusal("utf16.txt").find("iconv -f UTF-16 -t UTF-8"), std::string::npos);
  EXPECT_NE(refusal("pointer.txt").find("git lfs pull"), std::string::npos);
  EXPECT_NE(refusal("records.jsonl").find("--as-text"), std::string::npos);
  EXPECT_NE(refusal("records.jsonl").find("jq -r '.text'"), std::string::npos);
  EXPECT_NE(refusal("package.json").find("one object"), std::string::npos);
  EXPECT_EQ(find_text({.inputs = inputs, .json_as_text = true}).files.size(), 4u);
}

TEST_F(TextSourcesTest, NotesWhatIsUnusualAboutATextAndTakesIt) {
  write_file(folder_ / "more/joined.txt",
             "\xef\xbb\xbf"
             "a\n\xef\xbb\xbf"
             "b\n");
  write_file(folder_ / "more/latin1.txt", "caf\xe9\n");
  const std::vector<fs::path> inputs = {folder_ / "more"};
  const TextSources sources = find_text({.inputs = inputs});
  EXPECT_EQ(sources.bytes, 7 + 5);
  EXPECT_EQ(sources.notes.marked.count, 1);
  EXPECT_EQ(sources.notes.marked_within.count, 1);
  EXPECT_EQ(sources.notes.not_utf8.count, 1);
  EXPECT_EQ(sources.notes.first_byte, 3u);
  EXPECT_EQ(describe(sources.notes, false).size(), 3u);
  EXPECT_TRUE(describe(TextNotes{}, false).empty());
}

TEST_F(TextSourcesTest, AMissingInputIsNamed) {
  const std::vector<fs::path> inputs = {folder_ / "in", folder_ / "missing"};
  const std::string message = message_of([&] { find_text({.inputs = inputs}); });
  EXPECT_NE(message.find("missing does not exist"), std::string::npos) << message;
}

}  // namespace
}  // namespace trireme
