#include "runtime/data/token_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;

class TokenShardsTest : public ::testing::Test {
 protected:
  std::vector<std::string> names(const fs::path& path) {
    std::vector<std::string> names;
    for (const fs::path& shard : find_token_shards(path))
      names.push_back(shard.lexically_relative(folder_.path()));
    return names;
  }
  std::string refusal(const fs::path& path) {
    return message_of([&] { find_token_shards(path); });
  }
  testing::TemporaryFolder folder_;
};

TEST_F(TokenShardsTest, APatternStandsForTheFilesThatMatch) {
  for (const char* name : {"s/web_train_10.bin", "s/web_train_2.bin", "s/web_val_0.bin", "t/web_train_1.bin"})
    write_file(folder_ / name, "x");
  EXPECT_THAT(names(folder_ / "s/web_train_*.bin"), ElementsAre("s/web_train_10.bin", "s/web_train_2.bin"));
  EXPECT_THAT(names(folder_ / "?/web_train_[12].bin"), ElementsAre("s/web_train_2.bin", "t/web_train_1.bin"));
  EXPECT_THAT(refusal(folder_ / "s/none_*.bin"),
              AllOf(HasSubstr("s/none_*.bin"), HasSubstr(fs::current_path().string())));
  write_file(folder_ / "s/odd[1].bin", "x");  // a name, not a pattern
  EXPECT_THAT(names(folder_ / "s/odd[1].bin"), ElementsAre("s/odd[1].bin"));
}

TEST_F(TokenShardsTest, BothPartsOfAPreparedFolderAreRefused) {
  write_file(folder_ / "p/train.bin", "x");
  write_file(folder_ / "p/eval.bin", "x");
  EXPECT_THAT(refusal(folder_ / "p"), HasSubstr("both train.bin and eval.bin"));
  EXPECT_THAT(refusal(folder_ / "p/*.bin"), HasSubstr("pattern"));
  EXPECT_THAT(names(folder_ / "p/t*.bin"), ElementsAre("p/train.bin"));
}

TEST_F(TokenShardsTest, LinksOutOfAFolderAreRefusedAndThoseThatAreNamedAreFollowed) {
  write_file(folder_ / "elsewhere/b.bin", "x");
  write_file(folder_ / "s/a.bin", "x");
  fs::create_symlink("a.bin", folder_ / "s/c.bin");
  EXPECT_THAT(names(folder_ / "s"), ElementsAre("s/a.bin", "s/c.bin"));
  fs::create_symlink("../elsewhere/b.bin", folder_ / "s/b.bin");
  EXPECT_THAT(refusal(folder_ / "s"),
              AllOf(HasSubstr("the token shard " + (folder_ / "s/b.bin").string()),
                    HasSubstr("elsewhere/b.bin"), HasSubstr("copy it into the folder")));
  EXPECT_THAT(names(folder_ / "s/b.bin"), ElementsAre("s/b.bin"));
  EXPECT_THAT(names(folder_ / "s/*.bin"), ElementsAre("s/a.bin", "s/b.bin", "s/c.bin"));
}

TEST_F(TokenShardsTest, SaysWhatIsThereInstead) {
  EXPECT_THAT(refusal("not/there.bin"),
              AllOf(HasSubstr("not/there.bin does not exist"), HasSubstr("working directory")));
  write_file(folder_ / "text/a.txt", "text");
  EXPECT_THAT(refusal(folder_ / "text"), HasSubstr("trireme data text"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(refusal(folder_ / "empty"), HasSubstr("it is empty"));
}

}  // namespace
}  // namespace trireme
