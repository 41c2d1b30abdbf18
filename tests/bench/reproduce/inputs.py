"""Real input that every machine has or can make: text of the compiler's headers, JPEG files of the size of photographs,
drawn shapes with boxes."""
import random
import subprocess
import sys
from pathlib import Path

NUM_CLASSES, PICTURES_PER_CLASS, SIDE = 4, 60, 900
DRAW_SHAPES = Path(__file__).resolve().parents[3] / "examples" / "draw_shapes.py"
TRAIN_SHAPES = {"shapes": 160, "few_shapes": 20}  # pictures
EVAL_SHAPES, SHAPES_SIDE = 400, 96


def prepare_text(trireme, folder):
    """Byte tokens of the C++ headers of this machine."""
    data = folder / "text"
    if not (data / "dataset.json").exists():
        listed = subprocess.run(["g++", "-x", "c++", "-M", "-"], input="#include <vector>\n", capture_output=True, text=True,
                                check=True).stdout
        headers = next(word for word in listed.split() if word.endswith("/vector"))
        subprocess.run([str(trireme), "data", "text", str(Path(headers).parent), "--out", str(data)], check=True,
                       capture_output=True)
    return data


def prepare_pictures(folder):
    """JPEG files of SIDE x SIDE pixels in class folders: soft shapes and grain, which cost a decoder what a
    photograph costs."""
    from PIL import Image, ImageDraw, ImageFilter
    data = folder / f"pictures{SIDE}"
    if (data / "done").exists():
        return data / "train"
    for label in range(NUM_CLASSES):
        place = data / "train" / f"class{label}"
        place.mkdir(parents=True, exist_ok=True)
        for number in range(PICTURES_PER_CLASS):
            draw = random.Random(label * PICTURES_PER_CLASS + number)
            picture = Image.effect_noise((SIDE, SIDE), 60).convert("RGB")
            pen = ImageDraw.Draw(picture)
            for _ in range(12):
                x, y, size = draw.randrange(SIDE), draw.randrange(SIDE), draw.randrange(SIDE // 16, SIDE // 3)
                pen.ellipse((x, y, x + size, y + size), fill=tuple(draw.randrange(256) for _ in range(3)))
            picture.filter(ImageFilter.GaussianBlur(1)).save(place / f"{number:04}.jpg", quality=90)
    (data / "done").touch()
    return data / "train"


def prepare_shapes(folder, name):
    """Pictures of shapes with boxes, in COCO's format: train, eval, instances_train.json, instances_eval.json."""
    data = folder / name
    if not (data / "instances_eval.json").exists():
        counts = ["--train", str(TRAIN_SHAPES[name]), "--eval", str(EVAL_SHAPES), "--side", str(SHAPES_SIDE)]
        subprocess.run([sys.executable, str(DRAW_SHAPES), str(data), *counts], check=True, capture_output=True)
    return data


def substitute(job, names):
    """"{text}" in a job's strings becomes the folder of that input."""
    return {key: value.format(**names) if isinstance(value, str) and "{" in value else value for key, value in job.items()}
