#include "runtime/data/text_sources.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
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
  const TextSources sources = find_text(inputs, folder_ / "in/out");
  EXPECT_EQ(names(sources), (std::vector<std::string>{"in/a/y", "in/a/z.txt", "in/b.txt"}));
  EXPECT_EQ(sources.bytes, 6);
  EXPECT_EQ(sources.num_skipped_binary, 1);
  EXPECT_EQ(sources.num_skipped_empty, 1);
}

TEST_F(TextSourcesTest, KeepsTheOrderOfInputsAndTakesEachFileOnce) {
  const std::vector<fs::path> inputs = {folder_ / "in/b.txt", folder_ / "in/.hidden", folder_ / "in"};
  EXPECT_EQ(names(find_text(inputs, folder_ / "in/out")),
            (std::vector<std::string>{"in/b.txt", "in/.hidden", "in/a/y", "in/a/z.txt"}));
}

TEST_F(TextSourcesTest, FollowsLinksToFilesButNotToFolders) {
  write_file(folder_ / "elsewhere/c.txt", "c");
  fs::create_symlink(folder_ / "elsewhere/c.txt", folder_ / "in/a/link");
  fs::create_directory_symlink(folder_ / "in", folder_ / "in/a/loop");
  fs::create_symlink(folder_ / "nowhere", folder_ / "in/a/broken");
  const std::vector<fs::path> inputs = {folder_ / "in/a"};
  EXPECT_EQ(names(find_text(inputs, {})), (std::vector<std::string>{"in/a/link", "in/a/y", "in/a/z.txt"}));
}

TEST_F(TextSourcesTest, AMissingInputIsNamed) {
  const std::vector<fs::path> inputs = {folder_ / "in", folder_ / "missing"};
  const std::string message = message_of([&] { find_text(inputs, {}); });
  EXPECT_NE(message.find("missing does not exist"), std::string::npos) << message;
}

}  // namespace
}  // namespace trireme
