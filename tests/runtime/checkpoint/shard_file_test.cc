// Shard files: round trips, and errors that name damage.
#include "runtime/checkpoint/shard_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

const std::string kData = "the bytes of two pieces";

ShardHeader header() {
  return {.run = "run",
          .save = "save",
          .step = 7,
          .rank = 1,
          .num_ranks = 4,
          .files = {{"model.safetensors", 100}, {"optimizer.safetensors", 200}},
          .content = {{"loss", 1.5}}};
}

std::filesystem::path write(const testing::TemporaryFolder& folder) {
  const auto* data = reinterpret_cast<const std::byte*>(kData.data());
  const ShardWriter writer(
      header(), {{.place = {.file = 1, .offset = 190, .bytes = 10}, .data = data},
                 {.place = {.file = 0, .offset = 3, .bytes = kData.size() - 10}, .data = data + 10}});
  const ReservedFile file(folder / "shard", writer.size_bytes());
  writer.write(file);
  return file.path();
}

std::string read_and_verify(const std::filesystem::path& path) {
  return testing::message_of([&] { ShardReader(path).verify(); });
}

TEST(ShardFile, GivesBackWhatWasWritten) {
  const testing::TemporaryFolder folder;
  const ShardReader shard(write(folder));
  shard.verify();
  EXPECT_EQ(shard.header().run, "run");
  EXPECT_EQ(shard.header().save, "save");
  EXPECT_EQ(shard.header().step, 7);
  EXPECT_EQ(shard.header().rank, 1);
  EXPECT_EQ(shard.header().num_ranks, 4);
  EXPECT_EQ(shard.header().files.at(1).name, "optimizer.safetensors");
  EXPECT_EQ(shard.header().files.at(1).bytes, 200u);
  EXPECT_EQ(shard.header().content["loss"], 1.5);
  const std::vector<ShardPiece> pieces = shard.pieces();
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].place.file, 1u);
  EXPECT_EQ(pieces[0].place.offset, 190u);
  std::string data;
  for (const ShardPiece& piece : pieces)
    data.append(reinterpret_cast<const char*>(piece.data), piece.place.bytes);
  EXPECT_EQ(data, kData);
}

TEST(ShardFile, EveryFlippedBitIsNoticed) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = write(folder);
  const std::string whole = testing::read_file(path);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    std::ofstream(path, std::ios::binary) << changed;
    EXPECT_THAT(read_and_verify(path), HasSubstr("shard " + path.string())) << "byte " << at;
  }
}

TEST(ShardFile, EveryShortenedFileIsNoticed) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = write(folder);
  for (std::uintmax_t size = std::filesystem::file_size(path); size-- > 0;) {
    std::filesystem::resize_file(path, size);
    EXPECT_THAT(read_and_verify(path), HasSubstr("shard " + path.string())) << size << " bytes";
  }
}

TEST(ShardFile, OneThatWasNotFinishedIsNone) {
  const testing::TemporaryFolder folder;
  const ReservedFile file(folder / "shard", 400);
  EXPECT_THAT(read_and_verify(file.path()), HasSubstr("its writer did not finish it"));
}

TEST(ReservedFile, SaysWhyItCannotBeMade) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(testing::message_of([&] { ReservedFile(folder / "none/file", 5); }),
              HasSubstr("none/file of 5 bytes: No such file or directory"));
  const ReservedFile file(folder / "file", 5);
  EXPECT_THAT(testing::message_of([&] { ReservedFile(folder / "file", 5); }), HasSubstr("File exists"));
  // A file size limit simulates a full file system.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = testing::message_of([&] { ReservedFile(folder / "large", 1 << 20); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("cannot reserve " + (folder / "large").string() +
                                 " of 1048576 bytes: File too large"));
  EXPECT_EQ(folder.num_entries(), 1) << "nothing is left of it";
}

}  // namespace
}  // namespace trireme
