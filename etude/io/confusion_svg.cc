// SPDX-License-Identifier: Apache-2.0
#include "etude/io/confusion_svg.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/files/atomic_file.h"
#include "etude/files/xml_text.h"

namespace etude::io {
namespace {

using etude::internal::xml_text;

constexpr int64_t kCell = 44, kLeftOfCells = 96, kAboveCells = 48;

// From white for nothing to blue for the whole row.
std::string shade_of(double part) {
  const auto channel = [part](double full) { return static_cast<int>(255 + (full - 255) * part); };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0x00), channel(0x72), channel(0xb2));
}

class Drawing {
 public:
  Drawing(const nn::Confusion& confusion, std::span<const std::string_view> names)
      : confusion_(confusion), names_(names) {}

  std::string draw() {
    const int64_t n = confusion_.classes(), width = kLeftOfCells + n * kCell + 16,
                  height = kAboveCells + n * kCell + 16;
    text_ = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" font-family="sans-serif" )"
        R"(font-size="11" text-anchor="middle"><rect width="{}" height="{}" fill="#fff"/>)",
        width, height, width, height);
    put(kLeftOfCells + n * kCell / 2, 14, "#000", "predicted");
    for (int64_t label = 0; label < n; ++label) draw_row(label);
    return text_ + "</svg>\n";
  }

 private:
  void put(int64_t x, int64_t y, const char* fill, std::string_view text) {
    text_ += fmt::format(R"(<text x="{}" y="{}" fill="{}">{}</text>)", x, y, fill, xml_text(text));
  }
  std::string name_of(int64_t i) const {
    return names_.empty() ? std::to_string(i) : std::string(names_[static_cast<std::size_t>(i)]);
  }
  void draw_row(int64_t label) {
    const int64_t y = kAboveCells + label * kCell;
    put(kLeftOfCells + label * kCell + kCell / 2, kAboveCells - 8, "#000", name_of(label));
    put(kLeftOfCells / 2, y + kCell / 2 + 4, "#000", name_of(label));
    int64_t all = 0;
    for (int64_t i = 0; i < confusion_.classes(); ++i) all += confusion_.count(label, i);
    for (int64_t i = 0; i < confusion_.classes(); ++i) {
      const int64_t count = confusion_.count(label, i), x = kLeftOfCells + i * kCell;
      const double part =
          static_cast<double>(count) / static_cast<double>(std::max<int64_t>(all, 1));
      text_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", x, y,
                           kCell - 1, kCell - 1, shade_of(part));
      if (count > 0) {
        put(x + kCell / 2, y + kCell / 2 + 4, part > 0.5 ? "#fff" : "#000", std::to_string(count));
      }
    }
  }

  const nn::Confusion& confusion_;
  std::span<const std::string_view> names_;
  std::string text_;
};

}  // namespace

void write_confusion_svg(const std::string& path, const nn::Confusion& confusion,
                         std::span<const std::string_view> names, CallSite where) {
  etude::internal::located("write_confusion_svg", where, [&] {
    ETUDE_REQUIRE(confusion.classes() > 0, "the matrix has no samples");
    ETUDE_REQUIRE(names.empty() || static_cast<int64_t>(names.size()) == confusion.classes(),
                  "there are {} names, but {} classes; give as many, or none", names.size(),
                  confusion.classes());
    etude::internal::AtomicFile file(path);
    file.write(Drawing(confusion, names).draw());
    file.commit();
  });
}

}  // namespace etude::io
