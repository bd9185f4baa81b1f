/* stats.c - Hodges-Lehmann intervals, shares and their bounds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fisher.h"

#define EXACT_MAX 60 /* signed-rank distribution by counting up to here */

static double *sorted_copy(const double *x, size_t n)
{
    double *s = malloc((n ? n : 1) * sizeof *s);

    if (s && n) {
        memcpy(s, x, n * sizeof *s);
        td_stat_sort(s, n);
    }
    return s;
}

/* ---- Hodges-Lehmann -------------------------------------------------------------------------- */

/* How many Walsh averages (s[i] + s[j]) / 2, i <= j, are <= t. s ascending. */
static double walsh_at_most(const double *s, size_t n, double t)
{
    double count = 0;
    size_t i, j = n; /* for growing i the largest j with s[i] + s[j] <= 2t falls */

    for (i = 0; i < n; i++) {
        while (j > i && (s[i] + s[j - 1]) / 2 > t)
            j--;
        if (j <= i)
            break;
        count += (double)(j - i);
    }
    return count;
}

/* The k-th smallest Walsh average, k from 1: bisection down to neighbouring doubles, so it is
 * exact, ties included. */
static double walsh_kth(const double *s, size_t n, double k)
{
    double lo = s[0], hi = s[n - 1];
    int i;

    if (walsh_at_most(s, n, lo) >= k)
        return lo;
    for (i = 0; i < 200; i++) { /* at_most(lo) < k <= at_most(hi) */
        double mid = lo + (hi - lo) / 2;

        if (mid <= lo || mid >= hi)
            break;
        if (walsh_at_most(s, n, mid) >= k)
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

/* Smallest k with P(W <= k) >= p for Wilcoxon's signed-rank statistic W of n values (R:
 * qsignrank). */
static double signed_rank_quantile(size_t n, double p)
{
    static const double SMALL = 1e-12; /* a p that was reached but for rounding */
    size_t total = n * (n + 1) / 2, i, r;
    double *ways, sum = 0, all = ldexp(1.0, (int)n);

    ways = calloc(total + 1, sizeof *ways);
    if (!ways)
        return 0;
    ways[0] = 1;
    for (r = 1; r <= n; r++)
        for (i = total; i >= r; i--)
            ways[i] += ways[i - r];
    for (i = 0; i <= total; i++) {
        sum += ways[i];
        if (sum / all >= p - SMALL)
            break;
    }
    free(ways);
    return (double)i;
}

/* The quantile of the standard normal distribution: bisection on erfc, plenty for a rank. */
static double normal_quantile(double p)
{
    double lo = -40, hi = 40;
    int i;

    for (i = 0; i < 200; i++) {
        double mid = (lo + hi) / 2;

        if (0.5 * erfc(-mid / sqrt(2)) < p)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}

size_t td_stat_signed_rank_need(double alpha)
{
    size_t n = 1;

    while (n < 1000 && ldexp(1.0, 1 - (int)n) >= alpha)
        n++;
    return n;
}

struct td_interval td_stat_hodges_lehmann(const double *x, size_t n, double alpha)
{
    struct td_interval r = {NAN, NAN, NAN, n, false};
    double total = (double)n * ((double)n + 1) / 2, k, *s;

    if (n == 0)
        return r;
    s = sorted_copy(x, n);
    if (!s)
        return r;
    r.est = fmod(total, 2) != 0 ? walsh_kth(s, n, (total + 1) / 2)
                                : (walsh_kth(s, n, total / 2) + walsh_kth(s, n, total / 2 + 1)) / 2;
    r.reached = n >= td_stat_signed_rank_need(alpha);
    r.lo = -INFINITY;
    r.hi = INFINITY;
    if (r.reached) {
        if (n <= EXACT_MAX)
            k = signed_rank_quantile(n, alpha / 2);
        else
            k = floor(total / 2 +
                      normal_quantile(alpha / 2) * sqrt(total * (2 * (double)n + 1) / 12) - 0.5);
        if (k < 1)
            k = 1;
        r.lo = walsh_kth(s, n, k);
        r.hi = walsh_kth(s, n, total + 1 - k);
    }
    free(s);
    return r;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static double log_choose(size_t n, size_t k)
{
    return lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1);
}

/* P(X <= k) for X ~ Binomial(n, p), 0 < p < 1 */
static double binomial_at_most(size_t k, size_t n, double p)
{
    double sum = 0;
    size_t i;

    for (i = 0; i <= k; i++)
        sum += exp(log_choose(n, i) + (double)i * log(p) + (double)(n - i) * log1p(-p));
    return sum;
}

double td_stat_share_upper(size_t k, size_t n, double alpha)
{
    double lo = 0, hi = 1;
    int i;

    if (n == 0 || k >= n)
        return 1;
    for (i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;

        if (binomial_at_most(k, n, mid) > alpha)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}

double td_stat_share_lower(size_t k, size_t n, double alpha)
{
    return n == 0 ? 0 : 1 - td_stat_share_upper(n - k, n, alpha);
}

double td_stat_share_larger_p(size_t k1, size_t n1, size_t k0, size_t n0)
{
    return n1 == 0 || n0 == 0 ? 1 : td_fisher_as_many(n1 + n0, n1, k1 + k0, k1);
}

double td_stat_sign_p(size_t more, size_t less)
{
    return more == 0 ? 1 : fmin(1, binomial_at_most(less, more + less, 0.5));
}

double td_stat_rank_over_p(size_t k, size_t m, size_t n)
{
    double p = 1;
    size_t i;

    for (i = 0; i < k && i < m; i++)
        p *= (double)(m - i) / (double)(m + n - i);
    return p;
}

/* ---- Student's t ----------------------------------------------------------------------------- */

/* The continued fraction of the incomplete beta function (Lentz's method; Abramowitz and Stegun
 * 26.5.8). x below (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), f = d;
    int m;

    for (m = 1; m < 10000; m++) {
        const double k = m, even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)),
                     odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1));
        double step;

        d = 1 / (1 + even * d);
        c = 1 + even / c;
        f *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        step = c * d;
        f *= step;
        if (fabs(step - 1) < 1e-15)
            break;
    }
    return f;
}

/* The regularised incomplete beta function; y is 1 - x, which may be known better. */
static double beta_share(double a, double b, double x, double y)
{
    double front;

    if (x <= 0 || y <= 0)
        return x <= 0 ? 0 : 1;
    front = exp(a * log(x) + b * log(y) + lgamma(a + b) - lgamma(a) - lgamma(b));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

double td_stat_t_p(double t, double dof)
{
    const double square = t * t;

    if (isinf(square))
        return 0;
    return fmin(1, beta_share(dof / 2, 0.5, dof / (dof + square), square / (dof + square)));
}

double td_stat_t_limit(double p, double dof)
{
    double lo = 0, hi = 1;
    int i;

    if (p <= 0)
        return INFINITY;
    while (td_stat_t_p(hi, dof) > p && hi < 1e300)
        hi *= 2;
    for (i = 0; i < 200; i++) {
        const double mid = (lo + hi) / 2;

        if (td_stat_t_p(mid, dof) > p)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}

double td_stat_holm(const double *p, size_t n, size_t all_n, double alpha)
{
    double rejected = -1;
    size_t i;

    for (i = 0; i < n && p[i] <= alpha / (double)(all_n - i); i++)
        rejected = p[i];
    return rejected;
}
