#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

/// A file with this header, preceded by its length, and this data.
std::string file_text(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string open_message(const std::filesystem::path& path, const std::string& text) {
  write_file(path, text);
  return message_of([&] { SafetensorsReader reader(path); });
}

TEST(Safetensors, BytesOfASmallFile) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "a.safetensors", {{"w", "F32", {2}}}, {{"made_by", "test"}});
  const std::vector<float> values = {1.0f, -2.0f};
  writer.append(values);
  writer.commit();
  // Padded to 8 bytes with spaces; 1.0f is 0x3f800000.
  std::string header =
      R"({"__metadata__":{"made_by":"test"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_file(folder / "a.safetensors"),
            file_text(header, std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8)));
}

TEST(Safetensors, RoundTripInPieces) {
  const TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  std::vector<float> values(300'000);
  std::iota(values.begin(), values.end(), -5.0f);
  SafetensorsWriter writer(path,
                           {{"b.weight", "F32", {100, 2999}},
                            {"empty", "F32", {0, 7}},
                            {"a \"quoted\" \xc3\xa9", "U8", {3}},
                            {"scalar", "F32", {}},
                            {"c", "F32", {99}}},
                           {{"step", "12"}});
  const std::span<const float> all(values);
  writer.append(all.first(200'000));
  writer.append(all.subspan(200'000, 99'900));
  writer.append(std::as_bytes(std::span("xyz", 3)));
  writer.append(all.subspan(299'900));
  EXPECT_FALSE(std::filesystem::exists(path));
  const CheckpointFile written = writer.commit();
  const CheckpointFile described = describe_file(path);
  EXPECT_EQ(written.name, described.name);
  EXPECT_EQ(written.bytes, described.bytes);
  EXPECT_EQ(written.checksum, described.checksum);
  EXPECT_EQ(written.tensors.size(), 5u);
  const auto checksum_of = [](std::span<const float> content) {
    ByteHash hash;
    hash.update(std::as_bytes(content));
    return hash.value();
  };
  EXPECT_EQ(written.tensors.at("b.weight"), checksum_of(all.first(299'900)));
  EXPECT_EQ(written.tensors.at("c"), checksum_of(all.last(99)));
  EXPECT_EQ(folder.num_entries(), 1);

  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.metadata(), (std::map<std::string, std::string>{{"step", "12"}}));
  ASSERT_EQ(reader.tensors().size(), 5u);
  EXPECT_EQ(reader.tensors().front().name, "b.weight");
  EXPECT_EQ(reader.tensor("b.weight").shape, (std::vector<std::int64_t>{100, 2999}));
  EXPECT_EQ(reader.tensor("b.weight").num_elems, 299'900u);
  EXPECT_EQ(reader.tensor("empty").num_elems, 0u);
  EXPECT_EQ(reader.tensor("a \"quoted\" \xc3\xa9").dtype, "U8");
  EXPECT_EQ(std::memcmp(reader.tensor("a \"quoted\" \xc3\xa9").data.data(), "xyz", 3), 0);
  EXPECT_FALSE(reader.has("missing"));
  std::vector<float> read(299'900);
  reader.copy_floats("b.weight", 0, read);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), values.begin()));
  std::vector<float> part(50);
  reader.copy_floats("c", 49, part);  // after three odd bytes: not aligned
  EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + 299'901 + 49));
}

TEST(Safetensors, AFileWithoutTensors) {
  const TemporaryFolder folder;
  SafetensorsWriter(folder / "a", {}).commit();
  EXPECT_TRUE(SafetensorsReader(folder / "a").tensors().empty());
}

TEST(Safetensors, WriterHoldsTheCallerToTheDeclaration) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  EXPECT_THROW(SafetensorsWriter(path, {{"w", "F32", {1}}, {"w", "F32", {1}}}), Error);
  EXPECT_THROW(SafetensorsWriter(path, {{"__metadata__", "F32", {1}}}), Error);
  EXPECT_THROW(SafetensorsWriter(path, {{"w", "float", {1}}}), Error);
  EXPECT_THROW(SafetensorsWriter(path, {{"w", "F32", {-1}}}), Error);
  EXPECT_THROW(SafetensorsWriter(path, {{"w", "F32", {1l << 40, 1l << 40}}}), Error);
  EXPECT_THROW(SafetensorsWriter(path, {{"\xff", "F32", {1}}}), Error);
  {
    SafetensorsWriter writer(path, {{"w", "F32", {2}}});
    writer.append(std::vector<float>(1));
    EXPECT_THROW(writer.commit(), Error);
    EXPECT_THROW(writer.append(std::vector<float>(2)), Error);
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(Safetensors, WriteFailureNamesTheFileAndLeavesNothing) {
  const TemporaryFolder folder;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{.rlim_cur = 10'000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of([&] {
    SafetensorsWriter writer(folder / "model.safetensors", {{"w", "F32", {5000}}});
    writer.append(std::vector<float>(5000));
    writer.commit();
  });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
  EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(Safetensors, ReaderErrorsNameTheTensor) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "a", {{"w", "F32", {4}}, {"i", "I32", {1}}});
  writer.append(std::vector<float>(5));
  writer.commit();
  const SafetensorsReader reader(folder / "a");
  std::vector<float> out(3);
  EXPECT_NO_THROW(reader.copy_floats("w", 1, out));
  EXPECT_THROW(reader.copy_floats("w", 2, out), Error);
  EXPECT_THROW(reader.copy_floats("w", ~0ull, out), Error);
  EXPECT_NE(message_of([&] { reader.copy_floats("i", 0, out); }).find("I32"), std::string::npos);
  EXPECT_NE(message_of([&] { reader.tensor("v"); }).find("no tensor \"v\""), std::string::npos);
}

struct Damage {
  const char* header;
  const char* expected;
};

// Each header is followed by 16 bytes of data.
const Damage kDamages[] = {
    {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]})", "not JSON"},
    {R"([1, 2])", "not a JSON object"},
    {R"({"w":5})", "tensor w has no dtype"},
    {R"({"w":{"shape":[4],"data_offsets":[0,16]}})", "has no dtype"},
    {R"({"w":{"dtype":"F32","data_offsets":[0,16]}})", "has no shape"},
    {R"({"w":{"dtype":"F32","shape":[4]}})", "has no data_offsets"},
    {R"({"w":{"dtype":7,"shape":[4],"data_offsets":[0,16]}})", "dtype of tensor w is not a string"},
    {R"({"w":{"dtype":"F33","shape":[4],"data_offsets":[0,16]}})", "unknown dtype \"F33\""},
    {R"({"w":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})", "not a list of sizes"},
    {R"({"w":{"dtype":"F32","shape":[4.0],"data_offsets":[0,16]}})", "not a list of sizes"},
    {R"({"w":{"dtype":"F32","shape":4,"data_offsets":[0,16]}})", "not a list of sizes"},
    {R"({"w":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]}})", "too large"},
    {R"({"w":{"dtype":"F32","shape":[18446744073709551612],"data_offsets":[0,16]}})", "too large"},
    {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16,16]}})", "not two offsets"},
    {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}})", "not two offsets"},
    {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})", "leads outside"},
    {R"({"w":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}})", "leads outside of the 16 bytes"},
    {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[18446744073709551600,18446744073709551615]}})",
     "leads outside"},
    {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}})", "takes 12 bytes, and has 16"},
    {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
     "12 to 16 of the data belong to no tensor"},
    {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})", "0 to 4 of the data belong to no tensor"},
    {R"({"v":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
     "tensor w overlaps"},
    {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
     "\"w\" twice"},
    {R"({"__metadata__":{"step":5},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "not a string"},
    {R"({"__metadata__":{"a":{"b":"c"}},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
     "not a string"},
    {R"({"__metadata__":7,"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "not a map of strings"},
    {R"({"w":{"dtype":["F32"],"shape":[4],"data_offsets":[0,16]}})", "dtype of tensor w is not a string"},
    {R"({"w":{"dtype":"F32","shape":[[4]],"data_offsets":[0,16]}})", "not a list of sizes"},
    {R"({"w":{"dtype":"F32","shape":{"a":4},"data_offsets":[0,16]}})", "not a list of sizes"},
    {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,{}]}})", "not two offsets"},
    {R"({"w":[4]})", "tensor w has no dtype"},
    {R"(7)", "not a JSON object"},
    {R"({"__metadata__":[],"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "not a map of strings"},
};

TEST(Safetensors, DamagedHeadersAreOneClearError) {
  const TemporaryFolder folder;
  const std::string data(16, '\0');
  EXPECT_EQ(open_message(folder / "x.safetensors",
                         file_text(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", data)),
            "");
  for (const Damage& damage : kDamages) {
    const std::string message = open_message(folder / "x.safetensors", file_text(damage.header, data));
    EXPECT_NE(message.find("x.safetensors"), std::string::npos) << damage.header;
    EXPECT_NE(message.find(damage.expected), std::string::npos) << message << "\nfor " << damage.header;
  }
}

TEST(Safetensors, OtherPartsOfATensorAreLeftOut) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"w":{"a":{"dtype":"x","shape":["y"]},"dtype":"F32","b":[[1],null],"shape":[4],"c":true,"data_offsets":[0,16]}})";
  EXPECT_EQ(open_message(folder / "x.safetensors", file_text(header, std::string(16, '\0'))), "");
}

TEST(Safetensors, ANestedHeaderIsOneClearError) {
  const TemporaryFolder folder;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string message = open_message(folder / "x.safetensors", file_text("{\"w\":" + deep + "}", ""));
  EXPECT_NE(message.find("x.safetensors is damaged: its header is nested 200001 levels"), std::string::npos)
      << message;
}

// Takes hours if every name is compared with every other.
TEST(Safetensors, HalfAMillionTensorsTakeSeconds) {
  const TemporaryFolder folder;
  constexpr int kCount = 500'000;
  std::string header = "{";
  for (int i = 0; i < kCount; ++i) {
    header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i == 0 ? "" : ",",
                          i, i, i + 1);
  }
  write_file(folder / "x.safetensors", file_text(header + "}", std::string(kCount, 'x')));
  const SafetensorsReader reader(folder / "x.safetensors");
  EXPECT_EQ(reader.tensors().size(), std::size_t{kCount});
  EXPECT_TRUE(reader.has("t499999"));
}

TEST(Safetensors, EveryTruncationIsNoticed) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "whole", {{"w", "F32", {8}}, {"b", "F32", {2}}});
  writer.append(std::vector<float>(10, 1.0f));
  writer.commit();
  const std::string whole = read_file(folder / "whole");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(open_message(folder / "part", whole.substr(0, size)), "") << size << " of " << whole.size();
  EXPECT_NE(open_message(folder / "part", whole + "x"), "");
}

TEST(Safetensors, OtherFormatsAreNamedWithWhatToDo) {
  const TemporaryFolder folder;
  const auto zip = [](const std::string& entry) {
    std::string head("PK\x03\x04\x00\x00\x08\x08", 8);
    head.resize(26, '\0');
    head += static_cast<char>(entry.size());
    return head + std::string(3, '\0') + entry + "and so on";
  };
  const struct {
    std::string bytes;
    const char *name, *advice;
  } cases[] = {
      {zip("archive/data.pkl"), "PyTorch", "safetensors.torch.save_file"},
      {zip("model/.format_version"), "PyTorch", "weights_only=True"},
      {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", "PyTorch", "a.safetensors"},
      {std::string("\x80\x04\x95\x10\x00\x00\x00\x00", 8), "pickle", "convert"},
      {zip("w.npy"), "NumPy", "safetensors.numpy"},
      {"\x93NUMPY\x01\x00v\x00{'descr'", "NumPy", "convert"},
      {zip("readme.txt"), "zip", "unzip"},
      {std::string("GGUF\x03\x00\x00\x00", 8), "GGUF", "llama.cpp"},
      {"\x89HDF\r\n\x1a\n and more", "HDF5", "Keras"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS", "git lfs pull"},
      {"\n<!DOCTYPE html><html>", "HTML", "/resolve/"},
      {"<HTML lang=en>", "HTML", "download"},
      {"\x1f\x8b\x08 and more", "gzip", "gunzip"}};
  for (const auto& [bytes, name, advice] : cases) {
    const std::string message = open_message(folder / "a.safetensors", bytes);
    EXPECT_NE(message.find("a.safetensors is no safetensors file but a"), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find(advice), std::string::npos) << message;
  }
}

TEST(Safetensors, ForeignFilesAreRefusedWithTheirSizes) {
  const TemporaryFolder folder;
  const auto path = folder / "x";
  EXPECT_NE(message_of([&] { SafetensorsReader reader(path); }).find("No such file"), std::string::npos);
  EXPECT_NE(open_message(path, "").find("0 bytes"), std::string::npos);
  EXPECT_NE(open_message(path, "This is a text and not a model.").find("is no safetensors file: its header"),
            std::string::npos);
  EXPECT_NE(open_message(path, std::string("\x10\0\0\0\0\0\0\0{}", 10)).find("header of 16 bytes"),
            std::string::npos);
  EXPECT_NE(open_message(path, file_text(std::string(100'000, '['), "")).find("nested 100000 levels deep"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
