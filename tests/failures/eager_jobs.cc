// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "tests/failures/jobs.h"

namespace etude::failures {
namespace eager_parts {

Run writes_in_place() {
  auto x = std::make_shared<Tensor>(counted({2, 3}));
  return {[x] {
            Tensor y = *x;
            y -= tanh(y) * 2.0F;
            y.at(0) = y.at(1) * 3.0F;
            y *= sum(y);
            return bits(y);
          },
          [x] { return bits(*x); }};
}

// One write: it happens as a whole or not at all.
Run one_write(void (*write)(Tensor&)) {
  auto x = std::make_shared<Tensor>(counted({4, 5}));
  auto is_over = std::make_shared<bool>(false);
  return {[=] {
            if (!*is_over) write(*x);
            *is_over = true;
            return quietly([&] { return bits(*x); });
          },
          [=] { return bits(*x); }};
}

Job write_job(const char* name, void (*write)(Tensor&)) {
  return {name, [write] { return one_write(write); }};
}

std::string decompositions() {
  const Tensor a = matmul(counted({4, 4}), counted({4, 4}), {.transpose_y = true}) + eye(4) * 50.0F;
  std::string out = bits(linalg::solve(a, ones({4, 1}))) + bits(linalg::eigh(a).values);
  return out + bits(linalg::cholesky(a)) + bits(linalg::det(a));
}

std::string draws() {
  const Tensor key = random::key(7);
  return bits(random::normal({40}, {.key = key})) + bits(random::permutation(9, {.key = key})) +
         bits(random::uniform({3}, {.key = key}));
}

// Draws from the generator of the thread: a failed draw takes no number from it.
Run draws_of_the_thread() {
  set_seed(5);
  return {[] {
            const Tensor x = random::normal({40});
            return quietly([&] { return bits(x); });
          },
          [] { return std::to_string(ambient().generator.position); }};
}

std::string sizes_by_data() {
  const Tensor x(std::vector<float>{3, 1, 3, 2, 1, 9});
  std::string out = bits(unique_values(x)) + bits(sort(x)) + bits(argsort(x));
  for (const Tensor& axis : nonzero(x > 1.5F)) out += bits(axis);
  return out + bits(take(counted({4, 3}), Tensor(std::vector<int32_t>{2, 0}), {.axis = 0}));
}

std::string pictures() {
  const Tensor image = counted({2, 8, 8, 3}), filter = counted({3, 3, 3, 4}) * 0.01F;
  const Tensor y = nn::conv2d(image, filter);
  return bits(nn::max_pool2d(y, {2, 2})) + bits(sum(y));
}

std::string large_product() {
  const Tensor a = counted({96, 200}) * 1e-4F;
  return bits(sum(matmul(a, a, {.transpose_y = true}), {.axis = {0}}));
}

std::string texts() {
  std::ostringstream out;
  out.exceptions(std::ios::badbit);  // else the stream hides a failed allocation
  out << counted({3, 4}) << " " << counted({2}).type()->to_string();
  return out.str();
}

std::string host_data() {
  const Tensor x(std::vector<double>{1, 2, 3, 4}, Shape{2, 2});
  return bits(astype(x, kFloat32)) + bits(stack({x, x})) + bits(concat({x, x * 2.0})) +
         bits(where(x > 2.0, x, 0.0)) + bits(cumulative_sum(x, {.axis = 1}));
}

std::string fourier() { return bits(real(fft::ifft(fft::fft(astype(counted({12}), kComplex64))))); }

std::vector<Job> eager_jobs() {
  return {
      plain_job("eager: calls",
                [] {
                  return bits(tanh(counted({2, 3})) * 2.0F + matmul(counted({2, 3}), ones({3, 3})));
                }),
      plain_job("eager: a large product", large_product),
      plain_job("eager: host data", host_data),
      plain_job("eager: decompositions", decompositions),
      plain_job("eager: sizes that depend on data", sizes_by_data),
      plain_job("eager: pictures", pictures),
      plain_job("eager: Fourier", fourier),
      plain_job("eager: draws by key", draws),
      {"eager: draws of the thread", draws_of_the_thread},
      plain_job("eager: texts", texts),
      {"eager: writes to a copy", writes_in_place},
      write_job("write: -=", [](Tensor& x) { x -= tanh(x); }),
      write_job("write: *= of a sum", [](Tensor& x) { x *= sum(x * x); }),
      write_job("write: a row", [](Tensor& x) { x.at(1) = sum(x, {.axis = {0}}); }),
      write_job("write: += at a row", [](Tensor& x) { x.at(0) += tanh(x.at(2)); }),
      write_job("write: by a mask", [](Tensor& x) { x.at(x > 4.0F) = 0.5F; }),
      plain_job("eager: a loop of tensors",
                [] {
                  const auto [i, s] = while_loop(
                      [](const Tensor& i, const Tensor&) { return i < 3; },
                      [](const Tensor& i, const Tensor& s) { return std::tuple(i + 1, s * 2.0F); },
                      std::tuple(Tensor(0), counted({3})));
                  return bits(i) + bits(s);
                }),
  };
}

}  // namespace eager_parts

std::vector<Job> eager_jobs() { return eager_parts::eager_jobs(); }

}  // namespace etude::failures
