// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/failures/jobs.h"

namespace etude::failures {
namespace file_parts {

namespace fs = std::filesystem;

using Folder = std::shared_ptr<internal::TempFolder>;

struct Pair {
  Tensor a = counted({2, 3}), b = ones({3});
};

std::string values_of(const io::NamedTensors& tensors) {
  std::string out;
  for (const auto& [name, x] : tensors) out += name + " " + bits(x) + "\n";
  return out;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// All regular files of a folder with their contents: nothing else may be left by a failure.
std::string all_in(const Folder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder->path())) {
    if (entry.is_regular_file()) names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  std::string out;
  for (const std::string& name : names)
    out += name.substr(folder->path().string().size()) + ": " + content_of(name);
  return out;
}

// A writer of one file, over an older one.
Job writer(const char* name, void (*older)(const std::string& path),
           void (*newer)(const std::string& path)) {
  return {name, [=] {
            auto folder = std::make_shared<internal::TempFolder>();
            const std::string path = (folder->path() / "file").string();
            older(path);
            return Run{[=] {
                         newer(path);
                         return quietly([&] { return content_of(path); });
                       },
                       [=] { return all_in(folder); }};
          }};
}

struct Objects {
  Folder folder = std::make_shared<internal::TempFolder>();
  Variable a{counted({2, 3})}, b{ones({3})};
  int64_t epoch = 1;
  io::Checkpoint checkpoint{{"a", a}, {"b", b}, {"epoch", epoch}};
  void set(float x) {
    a.assign(full({2, 3}, x));
    b.assign(full({3}, x + 1));
    epoch = static_cast<int64_t>(x);
  }
  std::string now() const { return bits(a.read()) + bits(b.read()) + std::to_string(epoch); }
};

// The values that a reader finds at a path.
std::string restored_from(const std::string& path) {
  if (path.empty()) return "none";
  Objects other;
  other.checkpoint.restore(path).assert_consumed();
  return other.now();
}

Run checkpoint_save(bool by_manager) {
  auto objects = std::make_shared<Objects>();
  auto manager =
      std::make_shared<io::CheckpointManager>(objects->checkpoint, objects->folder->path().string(),
                                              io::CheckpointManagerOptions{.max_to_keep = 2});
  const std::string one = (objects->folder->path() / "one").string();
  objects->set(5);
  by_manager ? static_cast<void>(manager->save()) : objects->checkpoint.write(one);
  objects->set(6);
  return {
      [=] {
        const std::string path = by_manager ? manager->save() : one;
        if (!by_manager) objects->checkpoint.write(one);
        return quietly([&] { return restored_from(path); });
      },
      [=] { return objects->now() + " " + restored_from(by_manager ? manager->latest() : one); }};
}

Run checkpoint_restore() {
  auto objects = std::make_shared<Objects>();
  const std::string path = (objects->folder->path() / "x").string();
  objects->set(5);
  objects->checkpoint.write(path);
  objects->set(6);
  return {[=] {
            objects->checkpoint.restore(path);
            return quietly([&] { return objects->now(); });
          },
          [=] { return objects->now(); }};
}

// An object of each kind.
struct Kinds {
  Folder folder = std::make_shared<internal::TempFolder>();
  Pair pair;
  Variable open{Tensor(), {.dtype = kFloat32, .shape = Shape{kAny}}};
  optim::Adam adam{{.lr = 1e-2}};
  data::Loader<Tensor> loader{counted({8}), {.batch = 2, .prefetch = 0}};
  data::DatasetIterator<Tensor> walk = data::from_tensors(counted({8})).shuffle(3, 1).iterate();
  data::DatasetLoader<Tensor> batches{data::from_tensors(counted({8})).shuffle(3, 1).batch(2)};
  double number = 1;
  std::string text = "a text of more than fifteen bytes";
  Generator generator{1};
  int hook = 1;
  io::Checkpoint checkpoint{{"pair", pair},     {"open", open}, {"adam", adam},
                            {"loader", loader}, {"walk", walk}, {"batches", batches},
                            {"number", number}, {"text", text}, {"generator", generator}};
  Kinds() {
    checkpoint.track_state(
        "hook",
        [this] {
          return io::NamedTensors{{"x", Tensor(hook)}};
        },
        [this](io::NamedTensors values) { hook = values.at("x").item<int>(); });
  }
  void step() {
    pair.a = pair.a * 2;
    open.assign(counted({static_cast<int64_t>(number) + 1}));
    adam.update(pair, gradient([](const Pair& p) { return sum(p.a) + sum(p.b); }, pair));
    loader.next();
    walk.next();
    for (int i = 0; i < 3; ++i) batches.next();
    number += 1;
    text += "!";
    generator.position += 1;
    hook += 1;
  }
  std::string now() const {
    std::string out = bits(pair.a) + bits(pair.b) + (open.initialized() ? bits(open.read()) : "");
    for (const auto& [name, x] : adam.state()) out += name + " " + bits(x);
    for (const data::Position at : {loader.position(), batches.position()}) {
      out += std::to_string(at.epoch) + "/" + std::to_string(at.step) + " ";
    }
    return out + std::to_string(walk.position()) + " " + std::to_string(number) + text +
           std::to_string(generator.position) + " " + std::to_string(hook);
  }
};

Run kinds_restore(bool is_first) {
  auto kinds = std::make_shared<Kinds>();
  const std::string path = (kinds->folder->path() / "x").string();
  kinds->step();
  kinds->checkpoint.write(path);
  kinds->step();
  const auto to = is_first ? std::make_shared<Kinds>() : kinds;
  return {[=] {
            to->checkpoint.restore(path).expect_partial();
            return quietly([&] { return to->now(); });
          },
          [=] { return to->now() + kinds->now(); }};
}

// Two restores wait for an object, which is then attached. The first has an edge of its own, so
// that it stays.
Run late_restore() {
  struct Late {
    Folder folder = std::make_shared<internal::TempFolder>();
    Variable kept = Variable(1.0F), late = Variable(2.0F);
    io::Checkpoint checkpoint{{"kept", kept}};
    bool is_there = false;
    std::string now() const { return bits(kept.read()) + bits(late.read()); }
  };
  auto all = std::make_shared<Late>();
  const auto path = [&](const char* name) { return (all->folder->path() / name).string(); };
  Variable five(5.0F), six(6.0F), seven(7.0F);
  io::Checkpoint{{"late", five}, {"other", seven}}.write(path("five"));
  io::Checkpoint{{"late", six}, {"kept", seven}}.write(path("six"));
  for (const char* name : {"five", "six"}) all->checkpoint.restore(path(name)).expect_partial();
  return {[=] {
            if (!all->is_there) all->checkpoint.track("late", all->late);
            all->is_there = true;
            return quietly([&] { return all->now(); });
          },
          [=] { return all->now(); }};
}

struct Course {
  Folder folder = std::make_shared<internal::TempFolder>();
  nn::Dense model{2, 3};
  optim::Adam adam{{.lr = 1e-2}};
  data::Loader<data::Samples> data{
      data::Samples{.inputs = counted({8, 2}), .labels = zeros({8}, {.dtype = kInt32})},
      {.batch = 4, .prefetch = 0}};
  Course() { model.weight = counted({2, 3}); }
  void step() {
    adam.update(model, gradient([](const nn::Dense& m) { return sum(m(ones({1, 2}))); }, model));
    data.next();
  }
  std::string now() const {
    std::string out = values_of(io::named_tensors(model)) + std::to_string(data.position().epoch) +
                      "/" + std::to_string(data.position().step);
    for (const auto& [name, x] : adam.state()) out += " " + name + " " + bits(x);
    return out;
  }
};

Run course_save() {
  auto course = std::make_shared<Course>();
  const std::string path = (course->folder->path() / "run").string();
  course->step();
  io::save_checkpoint(path, course->model, course->adam, course->data);
  course->step();
  const auto saved = [path] {
    Course other;
    io::load_checkpoint(path, other.model, other.adam, other.data);
    return other.now();
  };
  return {[=] {
            io::save_checkpoint(path, course->model, course->adam, course->data);
            return quietly(saved);
          },
          [=] { return course->now() + saved(); }};
}

Run course_load() {
  auto course = std::make_shared<Course>();
  const std::string path = (course->folder->path() / "run").string();
  course->step();
  io::save_checkpoint(path, course->model, course->adam, course->data);
  course->step();
  return {[=] {
            io::load_checkpoint(path, course->model, course->adam, course->data);
            return quietly([&] { return course->now(); });
          },
          [=] { return course->now(); }};
}

// A reader of a file that exists.
Job reader(const char* name, void (*write)(const std::string& path),
           std::string (*read)(const std::string& path)) {
  return {name, [=] {
            auto folder = std::make_shared<internal::TempFolder>();
            const std::string path = (folder->path() / "file").string();
            write(path);
            return Run{[=] { return read(path); }, [=] { return all_in(folder); }};
          }};
}

Run model_load() {
  auto folder = std::make_shared<internal::TempFolder>();
  auto to = std::make_shared<Pair>();
  const std::string path = (folder->path() / "file").string();
  io::save(Pair{zeros({2, 3}), zeros({3})}, path);
  return {[=] {
            io::load(*to, path);
            return quietly([&] { return bits(to->a) + bits(to->b); });
          },
          [=] { return bits(to->a) + bits(to->b) + all_in(folder); }};
}

const io::NamedTensors& tensors() {
  static const auto* const made = new io::NamedTensors{{"a", counted({2, 3})}, {"b", zeros({300})}};
  return *made;
}

void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string csv(const std::string& path) {
  const io::CsvTable table = io::read_csv(path);
  return bits(table.matrix()) + std::to_string(table.column("a").missing);
}

// A 2 by 2 table of bytes, as MNIST has it.
void put_idx(const std::string& path) {
  put(path, std::string_view("\0\0\x08\2\0\0\0\2\0\0\0\2\1\2\3\4", 16));
}

// The same, by gzip.
void put_gzipped_idx(const std::string& path) {
  put(path, std::string_view(
                "\037\213\010\000\000\000\000\000\002\003\143\140\340\140\142\140\140\000\143\106"
                "\046\146\026\000\037\277\360\174\020\000\000\000",
                32));
}

std::string idx(const std::string& path) {
  const data::IdxArray array = data::read_idx(path);
  return std::string(array.bytes.begin(), array.bytes.end());
}

std::vector<Job> saving_jobs() {
  return {
      writer(
          "save: a model", [](const std::string& p) { io::save(Pair{}, p); },
          [](const std::string& p) {
            io::save(Pair{zeros({2, 3}), zeros({3})}, p);
          }),
      writer(
          "save: safetensors", [](const std::string& p) { put(p, "old"); },
          [](const std::string& p) { io::save_safetensors(p, tensors()); }),
      writer(
          "save: npy", [](const std::string& p) { put(p, "old"); },
          [](const std::string& p) {
            io::save_npy(p, counted({2, 3}));
          }),
      writer(
          "save: npz", [](const std::string& p) { put(p, "old"); },
          [](const std::string& p) { io::save_npz(p, tensors()); }),
      writer(
          "save: npz, compressed", [](const std::string& p) { put(p, "old"); },
          [](const std::string& p) { io::save_npz(p, tensors(), {.compress = true}); }),
      writer(
          "save: PNG", [](const std::string& p) { put(p, "old"); },
          [](const std::string& p) {
            io::write_png(p, zeros({4, 4, 3}, {.dtype = kUInt8}));
          }),
      writer(
          "save: SVG", [](const std::string& p) { put(p, "old"); },
          [](const std::string& p) {
            io::write_svg(p, {io::Curve{.name = "c", .y = {1, 2, 3}}});
          }),
      {"save: Checkpoint", [] { return checkpoint_save(false); }},
      {"save: CheckpointManager", [] { return checkpoint_save(true); }},
      {"save: save_checkpoint", course_save},
  };
}

std::vector<Job> reading_jobs() {
  return {
      {"load: a model", model_load},
      {"restore: Checkpoint", checkpoint_restore},
      {"restore: all kinds", [] { return kinds_restore(false); }},
      {"restore: all kinds, new", [] { return kinds_restore(true); }},
      {"restore: later", late_restore},
      {"restore: load_checkpoint", course_load},
      reader(
          "load: safetensors", [](const std::string& p) { io::save_safetensors(p, tensors()); },
          [](const std::string& p) { return values_of(io::load_safetensors(p).tensors); }),
      reader(
          "load: npy",
          [](const std::string& p) {
            io::save_npy(p, counted({2, 3}));
          },
          [](const std::string& p) { return bits(io::load_npy(p)); }),
      reader(
          "load: npz", [](const std::string& p) { io::save_npz(p, tensors()); },
          [](const std::string& p) { return values_of(io::load_npz(p)); }),
      reader(
          "load: npz, compressed",
          [](const std::string& p) { io::save_npz(p, tensors(), {.compress = true}); },
          [](const std::string& p) { return values_of(io::load_npz(p)); }),
      reader(
          "load: PNG",
          [](const std::string& p) {
            io::write_png(p, ones({4, 4, 3}, {.dtype = kUInt8}));
          },
          [](const std::string& p) { return bits(io::read_png(p)); }),
      reader(
          "load: CSV", [](const std::string& p) { put(p, "a,b\n1,2.5\n,3\n4,5\n"); }, csv),
      reader("load: IDX", put_idx, idx),
      reader("load: IDX, gzip", put_gzipped_idx, idx),
      reader(
          "load: lines", [](const std::string& p) { put(p, "one\ntwo\nthree\n"); },
          [](const std::string& p) {
            std::string out;
            for (const std::string& line : io::text_lines(p)) out += line + ";";
            return out;
          }),
      plain_job("load: JSON",
                [] {
                  return bits(io::from_json(io::to_json(counted({2, 3}))));
                }),
  };
}

}  // namespace file_parts

std::vector<Job> saving_jobs() {
  std::vector<Job> out = file_parts::saving_jobs();
  for (Job& job : saving_program_jobs()) out.push_back(std::move(job));
  return out;
}
std::vector<Job> reading_jobs() { return file_parts::reading_jobs(); }

std::vector<Job> all_jobs() {
  std::vector<Job> out;
  for (auto jobs : {eager_jobs, staged_jobs, lazy_jobs, derivative_jobs, training_jobs, update_jobs,
                    saving_jobs, reading_jobs, saved_jobs, serve_jobs}) {
    for (Job& job : jobs()) out.push_back(std::move(job));
  }
  return out;
}

}  // namespace etude::failures
