r"""Do recommendations hold their chance constraints, and at which regret?"""
