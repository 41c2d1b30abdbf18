#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/data/image_decode.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/open_images.h"
#include "runtime/data/packed_images.h"
#include "tests/support/host_memory.h"
#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::encode_jpeg;
using testing::encode_png;
using testing::gradient;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

int whole(ImageSize) {
  return 1;
}

/// An image of 4 x 3 pixels of one colour.
std::string plain_png(std::uint8_t value) {
  return encode_png({.width = 4, .height = 3}, std::vector<std::uint8_t>(4 * 3 * 3, value));
}

std::string open_error(const std::filesystem::path& path) {
  return message_of([&] { open_images({.path = path}); });
}

TEST(ImageFolder, LinkedFoldersAreReadOnce) {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  write_file(folder / "set" / "ant" / "a.png", plain_png(1));
  write_file(folder / "set" / "ant" / "deep" / "b.png", plain_png(1));
  write_file(folder / "set" / "bee" / "c.png", plain_png(1));
  write_file(folder / "elsewhere" / "d.png", plain_png(1));
  fs::create_directory_symlink(folder / "elsewhere", folder / "set" / "ant" / "link");
  fs::create_directory_symlink(folder / "elsewhere",
                               folder / "set" / "ant" / "link2");  // the same folder as link
  fs::create_directory_symlink(folder / "set" / "ant", folder / "set" / "ant" / "deep" / "loop");
  fs::create_directory_symlink(folder / "elsewhere", folder / "elsewhere" / "loop");
  const ImageFolder images({.root = folder / "set"});
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < images.num_images(); ++i)
    names.push_back(images.path(i).lexically_relative(folder / "set").string());
  EXPECT_THAT(names, ElementsAre("ant/a.png", "ant/deep/b.png", "ant/link/d.png", "bee/c.png"));
  // A link to a folder at the class level is a class.
  fs::create_directory_symlink(folder / "elsewhere", folder / "set" / "cat");
  EXPECT_THAT(ImageFolder({.root = folder / "set"}).class_names(), ElementsAre("ant", "bee", "cat"));
}

TEST(ImageFolder, LinksOutOfTheFolderThatOthersMadeAreLeftOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link to another user";
  constexpr uid_t kOther = 54321;
  const TemporaryFolder folder;
  write_file(folder / "set/ant/a.png", plain_png(1));
  write_file(folder / "private/p.png", plain_png(1));
  const auto link = [&](const char* target, const char* name) {
    std::filesystem::create_symlink(target, folder / "set" / name);
    ASSERT_EQ(::lchown((folder / "set" / name).c_str(), kOther, kOther), 0);
  };
  link("../../private/p.png", "ant/b.png");
  link("../../private", "ant/deep");
  link("../private", "bee");
  link("a.png", "ant/c.png");  // inside
  const ImageFolder images({.root = folder / "set"});
  EXPECT_THAT(images.class_names(), ElementsAre("ant"));
  ASSERT_EQ(images.num_images(), 2);
  EXPECT_EQ(images.path(1), folder / "set/ant/c.png");
  EXPECT_THAT(images.describe_foreign_links(),
              AllOf(HasSubstr("3 link(s) of other users"), HasSubstr("set/bee"), HasSubstr("copy them")));
  std::filesystem::remove_all(folder / "set/ant");
  EXPECT_THAT(message_of([&] { ImageFolder({.root = folder / "set"}); }), HasSubstr("another user made"));
}

TEST(ImageFolder, ClassesAndFilesAreSorted) {
  const TemporaryFolder folder;
  write_file(folder / "zebra" / "b.png", plain_png(1));
  write_file(folder / "zebra" / "a.PNG", plain_png(2));
  write_file(folder / "ant" / "deep" / "c.jpeg", encode_jpeg({.width = 9, .height = 5}, gradient(9, 5)));
  write_file(folder / "ant" / "x.jpg", encode_jpeg({.width = 9, .height = 5}, gradient(9, 5)));
  write_file(folder / "ant" / ".hidden.jpg", "no picture");
  write_file(folder / "ant" / "notes.txt", "no picture");
  write_file(folder / ".cache" / "x.jpg", "no picture");
  write_file(folder / "README", "no class");
  const auto images = open_images({.path = folder.path()});
  EXPECT_THAT(images->class_names(), ElementsAre("ant", "zebra"));
  ASSERT_EQ(images->num_images(), 4);
  EXPECT_EQ(images->name(0), (folder / "ant/deep/c.jpeg").string());
  EXPECT_EQ(images->name(1), (folder / "ant/x.jpg").string());
  EXPECT_EQ(images->name(2), (folder / "zebra/a.PNG").string());
  EXPECT_EQ(images->name(3), (folder / "zebra/b.png").string());
  EXPECT_THAT((std::vector{images->label(0), images->label(1), images->label(2), images->label(3)}),
              ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(images->load(2, whole)->pixels[0], 2);
  ImageSize seen;
  const auto image = images->load(1, [&](ImageSize size) {
    seen = size;
    return 4;
  });
  EXPECT_EQ(seen, (ImageSize{9, 5}));
  EXPECT_EQ(image->size, (ImageSize{3, 2}));
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(open_error(folder / "nowhere"), HasSubstr("nowhere"));
  EXPECT_THAT(open_error(folder.path()),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("no class folders")));
  write_file(folder / "cat" / "1.png", plain_png(1));
  std::filesystem::create_directories(folder / "dog");
  EXPECT_THAT(open_error(folder.path()),
              AllOf(HasSubstr((folder / "dog").string()), HasSubstr("has no pictures")));
}

// Images of unsupported formats are reported, so that nobody trains on a part of a set unknowingly.
TEST(ImageFolder, PicturesOfOtherKindsAreNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"a/1.png", "a/2.webp", "a/deep/3.GIF", "b/1.png", "b/labels.csv", "b/.4.bmp"}) {
    write_file(folder / name, plain_png(1));
  }
  const ImageFolder images({.root = folder.path(), .max_pixels = 1000});
  EXPECT_EQ(images.num_images(), 2);
  EXPECT_EQ(images.num_unreadable(), 2);
  EXPECT_THAT(images.describe_unreadable(), AllOf(HasSubstr("2 picture(s)"), HasSubstr("a/2.webp")));
  std::filesystem::remove_all(folder / "a");
  EXPECT_EQ(ImageFolder({.root = folder.path(), .max_pixels = 1000}).describe_unreadable(), "");
}

TEST(ImageFolder, ABadPictureAndAMissingFileAreNotTheSame) {
  const TemporaryFolder folder;
  write_file(folder / "cat" / "1.jpg", "");
  write_file(folder / "cat" / "2.jpg", plain_png(1));
  const auto images = open_images({.path = folder.path()});
  EXPECT_THROW(images->load(0, whole), BadImage);
  std::filesystem::remove(folder / "cat" / "2.jpg");
  try {
    images->load(1, whole);
    FAIL() << "a missing file was loaded";
  } catch (const BadImage&) {
    FAIL() << "a missing file must not count as a bad image";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cat/2.jpg"));
  }
}

// Opening a pipe must not wait for its other end.
TEST(ImageFolder, WhatIsNoFileIsABadPicture) {
  const TemporaryFolder folder;
  write_file(folder / "cat" / "1.jpg", plain_png(1));
  std::filesystem::create_symlink("nowhere.jpg", folder / "cat" / "2.jpg");
  std::filesystem::create_symlink("3.jpg", folder / "cat" / "3.jpg");  // a link to itself
  ASSERT_EQ(::mkfifo((folder / "cat" / "4.jpg").c_str(), 0600), 0);
  std::filesystem::create_directories(folder / "cat" / "5.jpg");  // an ordinary folder
  write_file(folder / "cat" / "5.jpg" / "6.jpg", plain_png(1));
  std::filesystem::create_directory_symlink("5.jpg", folder / "cat" / "7.jpg");
  const auto images = open_images({.path = folder.path()});
  ASSERT_EQ(images->num_images(), 5);
  const auto reason = [&](std::int64_t index) -> std::string {
    try {
      images->load(index, whole);
    } catch (const BadImage& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(reason(0), "");
  EXPECT_THAT(reason(1), HasSubstr("cat/2.jpg is a link to nothing"));
  EXPECT_THAT(reason(2), HasSubstr("cat/3.jpg is a link to nothing"));
  EXPECT_THAT(reason(3), HasSubstr("cat/4.jpg is not a regular file"));
  EXPECT_EQ(reason(4), "");
}

TEST(ImageFolder, FingerprintFollowsTheSamples) {
  const auto fingerprint = [](const std::vector<std::string>& files, std::uint8_t last = 1) {
    const TemporaryFolder folder;
    for (const std::string& file : files) write_file(folder / file, plain_png(1));
    write_file(folder / files.back(), plain_png(last));
    return open_images({.path = folder.path()})->fingerprint();
  };
  const auto one = fingerprint({"a/1.png", "a/2.png", "b/1.png"});
  EXPECT_EQ(one, fingerprint({"a/1.png", "a/2.png", "b/1.png"}));
  EXPECT_EQ(one, fingerprint({"a/1.png", "a/3.png", "b/1.png"}));  // the same samples in the same order
  EXPECT_FALSE(one.has_names_of(fingerprint({"a/1.png", "a/3.png", "b/1.png"})));
  EXPECT_FALSE(one == fingerprint({"a/1.png", "b/2.png", "b/1.png"}));
  EXPECT_FALSE(one == fingerprint({"a/1.png", "a/2.png", "c/1.png"}));
  EXPECT_FALSE(one == fingerprint({"a/1.png", "a/2.png", "a/3.png", "b/1.png"}));
  const auto replaced = fingerprint({"a/1.png", "a/2.png", "b/1.png"}, 2);
  EXPECT_FALSE(one == replaced);  // the same size, because the images have one colour
  EXPECT_TRUE(one.has_names_of(replaced));
  EXPECT_EQ(one.contents, "3 pictures in 2 class folders");
}

TEST(DecodedCache, KeepsWhatFits) {
  const TemporaryFolder folder;
  for (const char* name : {"1.png", "2.png", "3.png"}) write_file(folder / "a" / name, plain_png(7));
  write_file(folder / "a" / "4.jpg", encode_jpeg({.width = 8, .height = 8}, gradient(8, 8)));
  constexpr int kPngBytes = 4 * 3 * 3;
  ImageFolder images({.root = folder.path(), .max_pixels = 1000});
  const auto memory =
      std::make_shared<PictureMemory>(testing::host_buffer(2 * kPngBytes + 8 * 8 * 3 / 4 + 5));
  images.keep_in(memory);
  const auto reduced = [](ImageSize) { return 2; };
  for (const int picture : {0, 1}) images.load(picture, whole);
  const auto jpeg = images.load(3, reduced);
  images.load(2, whole);                                      // memory is full
  EXPECT_EQ(images.load(3, whole)->size, (ImageSize{8, 8}));  // another reduction than the cached one
  EXPECT_EQ(memory->take(6), nullptr);
  EXPECT_NE(memory->take(5), nullptr);
  for (const char* name : {"1.png", "2.png", "3.png", "4.jpg"}) std::filesystem::remove(folder / "a" / name);
  for (const int picture : {0, 1}) {
    EXPECT_EQ(images.load(picture, whole)->pixels, std::vector<std::uint8_t>(kPngBytes, 7));
  }
  EXPECT_EQ(images.load(3, reduced)->size, (ImageSize{4, 4}));
  EXPECT_EQ(images.load(3, reduced)->reduction, 2);
  EXPECT_EQ(images.load(3, reduced)->pixels, jpeg->pixels);
  EXPECT_THROW(images.load(2, whole), Error);
}

// Training and evaluation share one memory budget.
TEST(DecodedCache, SetsShareTheMemory) {
  const TemporaryFolder folder;
  for (const char* name : {"x/a/1.png", "y/a/1.png"}) write_file(folder / name, plain_png(7));
  const auto x = open_images({.path = folder / "x"}), y = open_images({.path = folder / "y"});
  const auto memory = std::make_shared<PictureMemory>(testing::host_buffer(4 * 3 * 3 + 10));
  for (const auto& images : {x.get(), y.get()}) images->keep_in(memory);
  x->load(0, whole);
  y->load(0, whole);
  std::filesystem::remove_all(folder / "x");
  std::filesystem::remove_all(folder / "y");
  EXPECT_EQ(x->load(0, whole)->pixels[0], 7);
  EXPECT_THROW(y->load(0, whole), Error);
}

/// A CIFAR record: labels, then planes of red 10 + i, green 20 + i and blue 30 + i for pixel i modulo 100.
std::string cifar_record(const std::string& labels) {
  std::string record = labels;
  for (int plane = 0; plane < 3; ++plane) {
    for (int i = 0; i < 32 * 32; ++i) record += static_cast<char>(10 * (plane + 1) + i % 100);
  }
  return record;
}

TEST(CifarFiles, AreReadInOrder) {
  const TemporaryFolder folder;
  write_file(folder / "data_batch_1.bin", cifar_record({3}) + cifar_record({9}));
  write_file(folder / "data_batch_2.bin", cifar_record({5}));
  write_file(folder / "test_batch.bin", cifar_record({1}));
  const auto train = open_images({.path = folder.path()});
  ASSERT_EQ(train->num_images(), 3);
  EXPECT_THAT((std::vector{train->label(0), train->label(1), train->label(2)}), ElementsAre(3, 9, 5));
  EXPECT_THAT(train->name(2), HasSubstr("data_batch_2.bin (picture 0)"));
  const auto image = train->load(1, whole);
  EXPECT_EQ(image->size, (ImageSize{32, 32}));
  for (const int i : {0, 1, 31, 32, 1023}) {
    const std::uint8_t* pixel = &image->pixels[static_cast<std::size_t>(i) * 3];
    EXPECT_THAT((std::vector<int>{pixel[0], pixel[1], pixel[2]}),
                ElementsAre(10 + i % 100, 20 + i % 100, 30 + i % 100));
  }
  EXPECT_EQ(open_images({.path = folder.path(), .split = ImageSplit::kEval})->label(0), 1);
  EXPECT_EQ(open_images({.path = folder / "test_batch.bin"})->num_images(), 1);
  EXPECT_THAT(
      message_of([&] { check_labels(*train, 9, "classes"); }),
      AllOf(HasSubstr("data_batch_1.bin (picture 1) has the label 9"), HasSubstr("set classes to 10")));
  check_labels(*train, 10, "classes");
}

TEST(CifarFiles, LinksOutOfTheFolderAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / "elsewhere.bin", cifar_record({3}));
  write_file(folder / "labels", "x");
  for (const char* name : {"set/data_batch_1.bin", "idx/train-images-idx3-ubyte"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::filesystem::create_symlink("../elsewhere.bin", folder / name);
    EXPECT_THAT(open_error((folder / name).parent_path()),
                AllOf(HasSubstr(name), HasSubstr("elsewhere.bin, outside of its folder")));
  }
  EXPECT_EQ(open_images({.path = folder / "set/data_batch_1.bin"})->num_images(), 1);
}

// After a deleted file or a failed download, a fifth of the images would be missing without an error.
TEST(CifarFiles, AGapIsRefused) {
  const TemporaryFolder folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_4.bin", "data_batch_x.bin"}) {
    write_file(folder / name, cifar_record({1}));
  }
  EXPECT_THAT(open_error(folder.path()), AllOf(HasSubstr("data_batch_3.bin is missing"),
                                               HasSubstr("has data_batch_4.bin: the set is not whole")));
  std::filesystem::remove(folder / "data_batch_4.bin");
  EXPECT_EQ(open_images({.path = folder.path()})->num_images(), 2);
  std::filesystem::remove(folder / "data_batch_1.bin");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("data_batch_1.bin is missing"));
}

TEST(CifarFiles, LabelsThatTheSetCannotHaveAreDamage) {
  const TemporaryFolder folder;
  write_file(folder / "data_batch_1.bin", cifar_record({3}) + cifar_record({10}));
  EXPECT_THAT(open_error(folder.path()), AllOf(HasSubstr("data_batch_1.bin (picture 1) has the label 10"),
                                               HasSubstr("CIFAR-10 are 0 to 9")));
  write_file(folder / "train.bin", cifar_record({30, 99}) + cifar_record({4, 100}));
  EXPECT_THAT(open_error(folder / "train.bin"),
              AllOf(HasSubstr("(picture 1) has the label 100"), HasSubstr("CIFAR-100 are 0 to 99")));
}

TEST(OpenImages, APathThatIsTooLongIsAnError) {
  EXPECT_THAT(open_error(std::string(5000, 'x')), HasSubstr("File name too long"));
}

TEST(CifarFiles, HundredClassesHaveAFineLabel) {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", cifar_record({4, 77}) + cifar_record({2, 12}));
  const auto images = open_images({.path = folder.path()});
  EXPECT_EQ(images->label(0), 77);
  EXPECT_EQ(images->label(1), 12);
  EXPECT_EQ(images->load(1, whole)->pixels[0], 10);
}

TEST(CifarFiles, OtherSizesAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", cifar_record({4, 77}) + "x");
  EXPECT_THAT(open_error(folder.path()),
              AllOf(HasSubstr("train.bin is not a CIFAR file"), HasSubstr("3075")));
  write_file(folder / "train.bin", "");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("is not a CIFAR file"));
  write_file(folder / "data_batch_1.bin", cifar_record({1}));
  write_file(folder / "data_batch_2.bin", cifar_record({1, 2}));
  EXPECT_THAT(open_error(folder.path()), HasSubstr("not of one set"));
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

TEST(IdxFiles, AreReadInPairs) {
  const TemporaryFolder folder;
  const std::string header = big_endian(0x803) + big_endian(2) + big_endian(2) + big_endian(3);
  const auto images_path = folder / "train-images-idx3-ubyte",
             labels_path = folder / "train-labels-idx1-ubyte";
  write_file(images_path, header + "abcdefABCDEF");
  write_file(labels_path, big_endian(0x801) + big_endian(2) + std::string("\x07\x01"));
  const auto images = open_images({.path = folder.path()});
  ASSERT_EQ(images->num_images(), 2);
  EXPECT_EQ(images->label(0), 7);
  EXPECT_EQ(images->label(1), 1);
  const auto image = images->load(1, whole);
  EXPECT_EQ(image->size, (ImageSize{3, 2}));
  EXPECT_EQ(image->pixels[0], 'A');
  EXPECT_EQ(image->pixels[2], 'A');
  EXPECT_EQ(image->pixels[17], 'F');

  write_file(images_path, header + "abcdefABCDE");
  EXPECT_THAT(open_error(folder.path()), AllOf(HasSubstr("images-idx3"), HasSubstr("truncated")));
  write_file(images_path, header + "abcdefABCDEFG");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("damaged"));
  write_file(images_path,
             big_endian(0x803) + big_endian(0xFFFFFFFF) + big_endian(0xFFFFFFFF) + big_endian(0xFFFFFFFF));
  EXPECT_THAT(open_error(folder.path()), HasSubstr("truncated"));
  write_file(images_path, big_endian(0x803));
  EXPECT_THAT(open_error(folder.path()), HasSubstr("fewer than a header"));
  write_file(images_path, big_endian(0xD03) + header.substr(4) + "abcdefABCDEF");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("0x00000d03"));
  write_file(images_path, header + "abcdefABCDEF");
  write_file(labels_path, big_endian(0x801) + big_endian(1) + "\x07");
  EXPECT_THAT(open_error(folder.path()), AllOf(HasSubstr("2 pictures"), HasSubstr("1 labels")));
  std::filesystem::remove(labels_path);
  EXPECT_THAT(open_error(folder.path()), HasSubstr("train-labels-idx1-ubyte"));
}

TEST(Classes, TheirNumberIsTheModels) {
  const TemporaryFolder folder;
  for (const char* file : {"train/cat/1.png", "train/dog/1.png"}) {
    write_file(folder / file, plain_png(1));
  }
  const auto train = open_images({.path = folder / "train"});
  check_labels(*train, 2, "ResNetConfig::classes");
  EXPECT_THAT(message_of([&] { check_labels(*train, 3, "ResNetConfig::classes"); }),
              AllOf(HasSubstr("2 classes ('cat', 'dog')"), HasSubstr("set ResNetConfig::classes = 2")));
  // Another class of the model stands for "no class".
  check_labels(*train, 2, "model.classes", 1);
  EXPECT_THAT(message_of([&] { check_labels(*train, 1, "model.classes", 1); }),
              HasSubstr("the model has 1 and 1 for samples without a class: set model.classes = 3"));
}

}  // namespace
}  // namespace trireme
