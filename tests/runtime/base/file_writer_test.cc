#include "runtime/base/file_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <span>
#include <string>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TemporaryFolder;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(FileWriter, PiecesSmallAndLargerThanTheBufferArriveInOrder) {
  const TemporaryFolder folder;
  std::string expected;
  FileWriter writer(folder / "file", FileWriter::Mode::kCreateNew);
  for (const std::size_t size : {10ul, 3'000'000ul, 1ul, 1'048'576ul, 1'048'575ul, 5ul}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    writer.append(bytes_of(piece));
    expected += piece;
    EXPECT_EQ(writer.size_bytes(), expected.size());
  }
  writer.overwrite(5, bytes_of("XYZ"));
  expected.replace(5, 3, "XYZ");
  writer.truncate(expected.size() - 2);
  expected.resize(expected.size() - 2);
  writer.append(bytes_of("end"));
  writer.sync();
  writer.close();
  EXPECT_EQ(read_file(folder / "file"), expected + "end");
}

TEST(FileWriter, FullDiskNamesTheFileAndTheReason) {
  FileWriter writer("/dev/full", FileWriter::Mode::kTruncate);
  writer.append(bytes_of("some bytes"));
  try {
    writer.flush();
    FAIL() << "writing to a full device succeeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kRuntime);
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
  }
}

TEST(FileWriter, MissingFolderNamesThePath) {
  const TemporaryFolder folder;
  const std::string message =
      message_of([&] { FileWriter(folder / "missing" / "file", FileWriter::Mode::kCreateNew); });
  EXPECT_NE(message.find("missing/file"), std::string::npos) << message;
  EXPECT_NE(message.find("No such file"), std::string::npos) << message;
}

TEST(FileWriter, CreateNewRefusesAnExistingFile) {
  const TemporaryFolder folder;
  testing::write_file(folder / "file", "old");
  EXPECT_THROW(FileWriter(folder / "file", FileWriter::Mode::kCreateNew), Error);
  EXPECT_EQ(read_file(folder / "file"), "old");
}

TEST(SyncFolder, MissingFolderIsAnError) {
  EXPECT_THROW(sync_folder("/no/such/folder"), Error);
}

}  // namespace
}  // namespace trireme
