/* In front of the C library's math.h, for cilk2c only, which cannot read that one: the functions of C89 and a few more.
 */
#ifndef WEFT_CILK_MATH_H
#define WEFT_CILK_MATH_H
extern double acos(double), asin(double), atan(double), atan2(double, double), ceil(double), cos(double), cosh(double);
extern double exp(double), fabs(double), floor(double), fmod(double, double), frexp(double, int *), ldexp(double, int);
extern double log(double), log10(double), modf(double, double *), pow(double, double), sin(double), sinh(double);
extern double sqrt(double), tan(double), tanh(double), cbrt(double), hypot(double, double), log2(double), round(double);
extern double rint(double), trunc(double);
extern float sqrtf(float), fabsf(float), powf(float, float), sinf(float), cosf(float), expf(float), logf(float);
#define HUGE_VAL (__builtin_huge_val())
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
