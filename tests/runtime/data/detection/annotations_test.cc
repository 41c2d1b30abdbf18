// Both formats of annotations, and what is wrong with broken ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/detection/coco_file.h"
#include "runtime/data/detection/detection_set.h"
#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::encode_png;
using testing::gradient;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

constexpr const char* kImages = R"("images": [{"id": 7, "file_name": "b.png", "width": 40, "height": 30},
  {"id": 3, "file_name": "a.png", "width": 20, "height": 50}])";
constexpr const char* kCategories =
    R"("categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}])";

std::string coco(const std::string& annotations) {
  return fmt::format(R"({{"info": {{"year": [1]}}, "annotations": [{}], {}, {}}})", annotations, kImages,
                     kCategories);
}

std::string error_of(const TemporaryFolder& folder, const std::string& text) {
  write_file(folder / "instances.json", text);
  return message_of([&] { read_coco_file(folder / "instances.json"); });
}

TEST(CocoFile, MapsIdsWithHolesAndKeepsBoxesAsTheyStand) {
  const TemporaryFolder folder;
  write_file(
      folder / "instances.json",
      coco(R"({"id": 5, "image_id": 7, "category_id": 90, "bbox": [1, 2.5, 3, 4], "iscrowd": 1, "area": 6,
                      "segmentation": {"counts": [1, 2], "size": [3, 4]}},
                     {"id": 6, "image_id": 7, "category_id": 1, "bbox": [-5, 20, 100, 0],
                      "segmentation": [[1, 2, 3], [4]]})"));
  const LabelledPictures set = read_coco_file(folder / "instances.json");
  EXPECT_THAT(set.class_names, ElementsAre("person", "toothbrush"));
  EXPECT_THAT(set.category_ids, ElementsAre(1, 90));
  ASSERT_EQ(set.pictures.size(), 2u);
  EXPECT_EQ(set.pictures[0].id, 3);
  EXPECT_TRUE(set.pictures[0].boxes.empty());
  EXPECT_EQ(set.pictures[1].size, (ImageSize{40, 30}));
  ASSERT_EQ(set.pictures[1].boxes.size(), 2u);
  const LabelledBox &crowd = set.pictures[1].boxes[0], &outside = set.pictures[1].boxes[1];
  EXPECT_EQ(crowd.label, 1);
  EXPECT_TRUE(crowd.is_crowd);
  EXPECT_EQ(crowd.area, 6);
  EXPECT_EQ(crowd.box.y, 2.5);
  EXPECT_EQ(outside.label, 0);
  EXPECT_FALSE(outside.is_crowd);
  EXPECT_EQ(outside.box.x, -5);
  EXPECT_EQ(outside.area, 0);
}

TEST(CocoFile, ErrorsNameFileRecordAndRemedy) {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& annotation) { return error_of(folder, coco(annotation)); };
  EXPECT_THAT(with(R"({"id": 5, "image_id": 8, "category_id": 1, "bbox": [1, 2, 3, 4]})"),
              AllOf(HasSubstr("instances.json: annotation with id 5"), HasSubstr("image_id 8"),
                    HasSubstr("add the picture, or remove the annotation")));
  EXPECT_THAT(with(R"({"image_id": 7, "category_id": 2, "bbox": [1, 2, 3, 4]})"),
              AllOf(HasSubstr("annotation 0"), HasSubstr("category_id 2")));
  EXPECT_THAT(with(R"({"id": 5, "image_id": 7, "category_id": 1, "bbox": [1, 2, -3, 4]})"),
              AllOf(HasSubstr("annotation with id 5"), HasSubstr("negative side")));
  EXPECT_THAT(with(R"({"id": 5, "image_id": 7, "category_id": 1, "bbox": [1, NaN, 3, 4]})"),
              AllOf(HasSubstr("instances.json: \"annotations\"[0] (id 5)"), HasSubstr("NaN")));
  EXPECT_THAT(with(R"({"id": 5, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3]})"),
              HasSubstr("not [x, y, width, height]"));
  EXPECT_THAT(with(R"({"id": 5, "image_id": 7, "category_id": 1, "bbox": [1, null, 3, 4]})"),
              HasSubstr("not a finite number"));
  EXPECT_THAT(with(R"({"id": 5, "image_id": 7, "category_id": 1})"), HasSubstr("has no \"bbox\""));
  EXPECT_THAT(with(R"({"id": 5, "id": 6})"), HasSubstr("the name \"id\" twice"));
  const std::string good = R"({"id": 5, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]})";
  EXPECT_THAT(with(good + "," + good), HasSubstr("another annotation has the same id"));
  EXPECT_THAT(error_of(folder, R"({"images": [], "annotations": []})"), HasSubstr("has no pictures"));
  EXPECT_THAT(error_of(folder, fmt::format("{{{}}}", kImages)), HasSubstr("has no classes"));
  EXPECT_THAT(error_of(folder, "[1, 2]"), HasSubstr("is a list"));
  EXPECT_THAT(error_of(folder, coco(good).substr(0, 60)), HasSubstr("damaged"));
}

TEST(DetectionSet, NamesMissingPicturesAndWrongSizes) {
  const TemporaryFolder folder;
  write_file(folder / "instances.json", coco(""));
  write_file(folder / "p/a.png", encode_png({.width = 20, .height = 50}, gradient(20, 50)));
  const auto open = [&] {
    return DetectionSet({.pictures = folder / "p", .annotations = folder / "instances.json"});
  };
  EXPECT_THAT(message_of(open), AllOf(HasSubstr("instances.json: image with id 7"), HasSubstr("b.png"),
                                      HasSubstr("add the file")));
  write_file(folder / "p/b.png", encode_png({.width = 30, .height = 40}, gradient(30, 40)));
  const DetectionSet set = open();
  EXPECT_EQ(set.load(0, [](ImageSize) { return 1; })->size, (ImageSize{20, 50}));
  EXPECT_THAT(message_of([&] { set.load(1, [](ImageSize) { return 1; }); }),
              AllOf(HasSubstr("b.png (id 7) has 30 x 40"), HasSubstr("for 40 x 30")));
  EXPECT_THAT(message_of([&] { set.check_sizes(); }), HasSubstr("b.png (id 7) has 30 x 40"));
  const std::uint64_t hash = set.fingerprint().hash;
  write_file(folder / "instances.json",
             coco(R"({"id": 5, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]})"));
  EXPECT_NE(open().fingerprint().hash, hash);
}

TEST(BoxTextFolder, ReadsRelativeBoxesBesidePictures) {
  const TemporaryFolder folder;
  const std::string png = encode_png({.width = 40, .height = 20}, gradient(40, 20));
  write_file(folder / "classes.txt",
             "\xEF\xBB\xBF"
             "cat\ndog\n");
  write_file(folder / "images/x/a.png", png);
  write_file(folder / "images/b.png", png);
  write_file(folder / "labels/x/a.txt", "1 0.5 0.5 0.25 0.5\r\n\t\n0\t0.1 0.2 0 0.1\n");
  const DetectionSet set({.pictures = folder.path()});
  EXPECT_THAT(set.class_names(), ElementsAre("cat", "dog"));
  ASSERT_EQ(set.num_pictures(), 2);
  EXPECT_TRUE(set.picture(0).boxes.empty());
  ASSERT_EQ(set.picture(1).boxes.size(), 2u);
  const LabelledBox& dog = set.picture(1).boxes[0];
  EXPECT_EQ(dog.label, 1);
  EXPECT_EQ(dog.box.x, 15);
  EXPECT_EQ(dog.box.y, 5);
  EXPECT_EQ(dog.box.width, 10);
  EXPECT_EQ(dog.box.height, 10);
}

TEST(BoxTextFolder, ErrorsNameFileLineAndRemedy) {
  const TemporaryFolder folder;
  const auto error = [&] { return message_of([&] { DetectionSet({.pictures = folder.path()}); }); };
  EXPECT_THAT(error(), AllOf(HasSubstr("classes.txt is missing"), HasSubstr("one per line")));
  write_file(folder / "classes.txt", "cat\n");
  EXPECT_THAT(error(), HasSubstr("has no pictures"));
  write_file(folder / "a.png", encode_png({.width = 4, .height = 2}, gradient(4, 2)));
  EXPECT_THAT(error(), HasSubstr("no picture below"));
  const auto with = [&](const char* text) {
    write_file(folder / "a.txt", text);
    return error();
  };
  EXPECT_EQ(with("0 0.5 0.5 1 1"), "");
  EXPECT_THAT(with("0 0.5 0.5 1 1\n0 0.5 nan 1 1"),
              AllOf(HasSubstr("a.txt: line 2"), HasSubstr("fractions")));
  EXPECT_THAT(with("0 0.5 0.5 -1 1"), HasSubstr("negative side"));
  EXPECT_THAT(with("0 12 20 3 4"), HasSubstr("fractions of the picture"));
  EXPECT_THAT(with("1 0.5 0.5 1 1"), AllOf(HasSubstr("class 1"), HasSubstr("add the name there")));
  EXPECT_THAT(with("0 0.5 0.5 1"), HasSubstr("not \"class cx cy width height\""));
  EXPECT_EQ(with(""), "");
  write_file(folder / "b.txt", "");
  EXPECT_THAT(error(), AllOf(HasSubstr("b.txt has no picture"), HasSubstr("remove the text")));
}

}  // namespace
}  // namespace trireme
