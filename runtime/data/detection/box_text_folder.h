// A folder of pictures with a text file of boxes each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/detection/labelled_box.h"

namespace trireme {

/// Reads `folder`: classes.txt, with the name of a class per line; pictures, in order of their paths; and for
/// x.jpg a file x.txt beside it, with lines "class cx cy width height". The class counts from 0; the numbers
/// are the center and the sides of the box, as fractions of the picture's sides. In a folder with subfolders
/// images and labels, the text of images/x.jpg is labels/x.txt. A picture without a text has no objects;
/// their number is logged as a warning. Reads the header of each picture. Throws Error(kInvalidInput) with
/// the file, the line and the remedy: no pictures or classes, no text at all, a text without its picture, a
/// damaged line, a class outside of classes.txt, numbers that are not finite fractions.
LabelledPictures read_box_text_folder(const std::filesystem::path& folder, std::int64_t max_pixels);

/// The names in its classes.txt.
std::vector<std::string> read_box_text_classes(const std::filesystem::path& folder);

}  // namespace trireme
