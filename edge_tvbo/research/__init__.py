"""Research: experiments of the papers, comparisons of policies, and their reports."""
